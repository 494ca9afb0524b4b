// `pointsman check`: everything a start validates, with the same texts and positions, without starting.
import type { Command } from 'commander';
import {
  applyOverrides,
  ConfigError,
  type ConfigProblem,
  type ConfigSource,
  type LoadedConfig,
  overridesFromEnv,
  renderPath,
} from '../config/index.ts';
import {
  type ClassifierResolution,
  createPluginHost,
  type RoleProvisions,
  type RoleResolution,
} from '../host/index.ts';
import { NO_METRICS, textTable } from '../observe/index.ts';
import { NO_LOG, PointsmanError } from '../plugin/index.ts';
import { QUEUE_TITLES, type QueueClassRow, queueCells, queueRows } from './check-queues.ts';
import { type CliIo, writeJson } from './output.ts';
import { pluginModules, threadModules } from './plugin-modules.ts';
import { loadFiles, policyFileFromEnv } from './serve-config.ts';
import {
  idleRoleWarnings,
  keylessWarnings,
  startTokenSources,
  switchedOffWarnings,
  untestedWarnings,
} from './start-problems.ts';
import { systemClock } from './system-clock.ts';

/** Adds the command. */
export function register(program: Command, io: CliIo): void {
  program
    .command('check')
    .description('validate a configuration or policy file and show what each role resolves to')
    .argument('[file]', 'router.yaml, or a file with policy sections alone')
    .option(
      '--router-policy-config <file>',
      'a policy file in the grammar of the Rust router, beside the file or alone (default: DYN_ROUTER_POLICY_CONFIG)',
    )
    .option('--json', 'problems and roles as JSON on stdout')
    .addHelpText(
      'after',
      `
Problems go to stderr with file, line and column; the roles go to stdout. Exit 2 when a start would refuse the file.

Examples:
  $ pointsman check router.yaml
  $ pointsman check policy.yaml --json
  $ pointsman check router.yaml --router-policy-config policy.yaml`,
    )
    .action(async (given: string | undefined, options: CheckOptions) => {
      const policyFile = options.routerPolicyConfig ?? policyFileFromEnv(io.env);
      const file = given ?? policyFile;
      if (file === undefined) {
        throw new PointsmanError(
          'PM_USAGE',
          'check needs a file: router.yaml, or --router-policy-config policy.yaml',
        );
      }
      const found = await checkFile(() => loadFiles(given, policyFile), io.env);
      if (options.json) writeJson(io, asJson(file, found));
      else print(io, file, found);
      io.exit(found.problems.some((problem) => problem.severity === 'error') ? 2 : 0);
    });
}

interface CheckOptions {
  readonly json?: true;
  readonly routerPolicyConfig?: string;
}

/** What a check found. */
interface Findings {
  readonly source: ConfigSource;
  readonly problems: readonly ConfigProblem[];
  /** Null when the file cannot be used. */
  readonly roles: readonly RoleResolution[] | null;
  /** Null = none is configured, or the file cannot be used. */
  readonly classifier: ClassifierResolution | null;
  /** Classes of the admission queues; empty = no model queues. */
  readonly queues: readonly QueueClassRow[];
}

/** Of a file that cannot be used. */
const NOTHING_RESOLVED = { roles: null, classifier: null, queues: [] };

async function checkFile(load: () => LoadedConfig, env: CliIo['env']): Promise<Findings> {
  try {
    const { config: written, source, warnings } = load();
    const config = applyOverrides(written, overridesFromEnv(env));
    const clock = systemClock();
    const tokens = await startTokenSources(config, { metrics: NO_METRICS, clock, threads: 1 });
    await tokens.started.close();
    const early = [...warnings, ...idleRoleWarnings(config), ...untestedWarnings(config), ...tokens.problems];
    try {
      const host = await createPluginHost({
        config,
        source,
        clock,
        log: NO_LOG,
        modules: await pluginModules(config),
        threads: threadModules(),
      });
      const roles = host.resolution();
      const classifier = host.classifier();
      await host.dispose();
      return {
        source,
        problems: [
          ...early,
          ...host.warnings,
          ...switchedOffWarnings(config, roles),
          ...keylessWarnings(config, roles),
        ],
        roles: tokens.problems.length > 0 ? null : roles,
        classifier: tokens.problems.length > 0 ? null : classifier,
        queues: queueRows(config),
      };
    } catch (thrown) {
      if (!(thrown instanceof ConfigError)) throw thrown;
      return { ...NOTHING_RESOLVED, source, problems: [...early, ...thrown.problems] };
    }
  } catch (thrown) {
    if (!(thrown instanceof ConfigError)) throw thrown;
    return { ...NOTHING_RESOLVED, source: thrown.source, problems: thrown.problems };
  }
}

function print(io: CliIo, file: string, { classifier, problems, queues, roles, source }: Findings): void {
  for (const problem of problems) {
    const word = problem.severity === 'warning' ? 'warning: ' : '';
    io.err(`${word}${source.render(problem, { excerpt: true })}\n`);
  }
  if (roles === null) return;
  const rows = roles.map((role) => [
    role.role,
    policyName(role),
    role.kvPath ? 'yes' : 'no',
    hintNames(role),
  ]);
  io.out(`${textTable(['role', 'worker selection', 'KV path', 'hints'], rows)}\n`);
  const prepared = roles.map(({ role, provisions }) => [
    role,
    ...PROVISIONS.map(([, name]) => provisions[name]),
  ]);
  io.out(`\n${textTable(['prepared for', ...PROVISIONS.map(([title]) => title)], prepared)}\n\n`);
  if (queues.length > 0) io.out(`${textTable(QUEUE_TITLES, queues.map(queueCells))}\n\n`);
  if (classifier !== null) io.out(`request classifier: ${classifier.type} ${classifier.version}\n`);
  const count = `${problems.length} warning${problems.length === 1 ? '' : 's'}`;
  io.out(
    `${file}: no errors, ${count}; router mode ${roles[0]?.mode}${queues.length > 0 ? '' : '; no model queues'}\n`,
  );
}

/** Columns of what is prepared for a role. */
const PROVISIONS: readonly (readonly [title: string, name: keyof RoleProvisions, inJson: string])[] = [
  ['index', 'index', 'index'],
  ['KV events', 'eventSubscription', 'event_subscription'],
  ['prompt chain', 'chainRetention', 'chain_retention'],
  ['copy locations', 'copyLocations', 'copy_locations'],
  ['lineage', 'lineage', 'lineage'],
  ['residency', 'residency', 'residency'],
  ['hint stage', 'hintStage', 'hint_stage'],
];

function policyName({ policy }: RoleResolution): string {
  const instance = policy.instance === null ? '' : ` (instance ${policy.instance})`;
  return `${policy.type}${instance} ${policy.version}`;
}

function hintNames({ dormantHints, hints }: RoleResolution): string {
  const named = hints.map(({ listed, name, type }) => {
    return `${name}${name === type ? '' : ` (${type})`}${listed ? '' : ' by default'}`;
  });
  const dormant = dormantHints.map((name) => `${name} not run off the KV path`);
  return [...named, ...dormant].join(', ') || 'none';
}

function asJson(file: string, { classifier, problems, queues, roles, source }: Findings): unknown {
  return {
    file,
    ok: roles !== null,
    problems: problems.map((problem) => ({
      severity: problem.severity,
      code: problem.code,
      path: renderPath(problem.path),
      file: problem.file ?? source.fileOf?.(problem.path) ?? source.file,
      ...(source.locate?.(problem) ?? { line: null, column: null }),
      message: problem.message,
      text: source.render(problem),
    })),
    roles: roles?.map(({ dormantHints, hints, kvPath, mode, policy, provisions, role }) => {
      const prepared = Object.fromEntries(PROVISIONS.map(([, name, inJson]) => [inJson, provisions[name]]));
      return { role, mode, kv_path: kvPath, policy, hints, dormant_hints: dormantHints, prepared };
    }),
    queues: roles && queues,
    request_classifier: classifier && {
      type: classifier.type,
      version: classifier.version,
      max_wait_ms: classifier.maxWaitMs,
    },
  };
}
