import { type ContractSection, fault, rule, test, types } from './rule.ts';

const CREATION = 'src/host/creation.test.ts';
const PLUGIN_HOST = 'src/host/plugin-host.test.ts';
const PLUGIN_LOADER = 'src/host/plugin-loader.test.ts';
const CREATED_POLICY = 'src/host/created-policy.test.ts';
const ROLE_RESOLUTION = 'src/host/role-resolution.test.ts';

/** Creation. */
export const CREATION_RULES: ContractSection = {
  title: 'Creation',
  rules: [
    rule(
      'create-context',
      '`create` is given the parsed parameters, clock, seeded random numbers and log, and the partition, role and block size it is called for.',
      test(CREATION, 'create > is given what it is made for'),
      fault(
        'src/host/role-creation.ts',
        'role: resolved.role, blockSize: site.blockSize };',
        'role: resolved.role };',
      ),
    ),
    rule(
      'create-once',
      '`create` runs once per partition, role and block size.',
      test(PLUGIN_HOST, 'runtimes > are made once per partition, role and block size'),
      fault('src/host/resolved-host.ts', 'if (known) return known;', ''),
    ),
    rule(
      'create-shared',
      'With `scope: shared` it runs once for all partitions and roles.',
      test(
        PLUGIN_LOADER,
        'loading > shares one instance over partitions and roles with scope shared, and disposes what it made',
      ),
      fault('src/host/role-creation.ts', 'if (isShared) ports.shared.set(prepared, { created, meter });', ''),
    ),
    rule(
      'create-shared-context',
      'A shared policy is given no partition, role and block size.',
      test(
        PLUGIN_LOADER,
        'loading > shares one instance over partitions and roles with scope shared, and disposes what it made',
      ),
      fault('src/host/role-creation.ts', 'const context = isShared', 'const context = false'),
    ),
    rule(
      'create-shared-type',
      'Nor does the type of its context have them.',
      types('scope > shared takes partition, role and block size away'),
      fault(
        'src/plugin/define.ts',
        '  : CreateBase<Parameters<S>>;',
        '  : CreateBase<Parameters<S>> & CreatePartition;',
      ),
    ),
    rule(
      'create-dispose',
      'The `dispose` of what `create` returned is called when the router stops.',
      test(
        PLUGIN_LOADER,
        'loading > shares one instance over partitions and roles with scope shared, and disposes what it made',
      ),
      fault('src/host/resolved-host.ts', 'this.#disposers.unshift(...created.disposers);', ''),
    ),
    rule(
      'create-trial',
      'A start creates every policy once on trial and disposes it again.',
      test(
        PLUGIN_LOADER,
        'loading > shares one instance over partitions and roles with scope shared, and disposes what it made',
      ),
      fault(
        'src/host/host-trial.ts',
        'for (const dispose of created.disposers) this.#disposals.push(quietly(dispose, ports.log));',
        '',
      ),
    ),
    rule(
      'create-members',
      'A member of the result that the contract does not know ends the start and names the nearest known one.',
      test(CREATED_POLICY, 'what create returns > is refused with disopse'),
      fault('src/host/created-policy.ts', 'if (members.includes(name)) continue;', 'continue;'),
    ),
    rule(
      'create-throws',
      'A `create` that throws ends the start with its text.',
      test(
        ROLE_RESOLUTION,
        'a refusal names file, line, column and what would be right > a create that throws, with its text',
      ),
      fault(
        'src/host/problem-list.ts',
        "problems.error(code, path, 'key', `${errorText(failure)}${cause}`);",
        "problems.error(code, path, 'key', errorText(failure));",
      ),
    ),
    rule(
      'create-later',
      'When it throws for a partition that appears after the start, that partition answers with the reason, and others serve.',
      test(CREATION, 'create > that throws for a partition that appears later costs that partition alone'),
      fault(
        'src/host/role-creation.ts',
        "throw new PointsmanError('PM_PLUGIN_THREW', `create of",
        "throw new PointsmanError('PM_INTERNAL', `create of",
      ),
    ),
    rule(
      'create-later-refused',
      'Requests for it get 503 PM_PARTITION_NOT_READY.',
      test('src/cli/late-partition.test.ts', 'is refused by name, and the others go on'),
      fault(
        'src/host/site-failures.ts',
        "const error = new PointsmanError('PM_PARTITION_NOT_READY',",
        "const error = new PointsmanError('PM_INTERNAL',",
      ),
    ),
    rule(
      'create-later-shown',
      'Operators are shown what the plugin threw; clients are not.',
      test('src/cli/late-partition.test.ts', 'is refused by name, and the others go on'),
      fault(
        'src/host/site-failures.ts',
        'in role ${role}: ${errorText(thrown)}`;',
        'in role ${role}: ${errorText(Object(thrown).cause)}`;',
      ),
    ),
    rule(
      'create-later-again',
      'It is tried again after 10 s, and not before.',
      test(CREATION, 'create > that threw for such a partition is tried again after 10 s, and not before'),
      fault('src/host/site-failures.ts', 'SITE_RETRY_MS = 10_000', 'SITE_RETRY_MS = 9_000'),
    ),
    rule(
      'create-clock-number',
      'Its clock refuses a delay that is no number with PM_PLUGIN_INVALID, and cuts one beyond 2^31 − 1 ms.',
      test(
        'src/host/plugin-clock.test.ts',
        'a plugin’s clock refuses a delay that is no number, and cuts one that timers cannot wait',
      ),
      fault('src/host/plugin-clock.ts', ' && !Number.isNaN(delayMs)', ''),
    ),
    rule(
      'create-random-number',
      '`rng.integer(n)` refuses what is no whole number from 1 with PM_PLUGIN_INVALID.',
      test('src/plugin/rng.test.ts', 'an integer is drawn below a whole number from 1 only'),
      fault('src/plugin/rng.ts', 'Number.isSafeInteger(n) && n >= 1', 'n >= 1'),
    ),
    rule(
      'create-random',
      'Its random numbers follow from the seed of the router: the same seed gives the same decisions.',
      test(
        PLUGIN_HOST,
        'runtimes > repeat with the same router.seed, differ with another, and differ between roles',
      ),
      fault(
        'src/host/resolved-host.ts',
        'this.seed = options.seed || config.router.seed || systemSeed();',
        'this.seed = options.seed || systemSeed();',
      ),
    ),
  ],
};
