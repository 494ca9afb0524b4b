// Plugins and policies as the admin API shows them.
import type { ReloadableHost } from '../host/index.ts';
import type { ReloadReport } from './router-reload.ts';

/** The JSON of `/plugins`: what is loaded and where it runs, and what the latest reload made of it. */
export function pluginsStatus(host: ReloadableHost, last: ReloadReport | null): unknown {
  const { generation, other, plugins, probation, refused } = host.status();
  const roles = host.resolution();
  const guards = host.containment();
  const failures = host.failures();
  const classifier = host.classifier();
  const ofClassifier = guards.filter((guard) => guard.part === 'classifier');
  return {
    generation,
    other,
    probation,
    reload: last,
    plugins: plugins.map(({ specifier, kind, version, files, types }) => ({
      plugin: specifier,
      kind,
      version,
      generation,
      files,
      types: types.map(({ type, kind: typeKind }) => ({
        type,
        kind: typeKind,
        roles: roles
          .filter(({ policy, hints }) => policy.type === type || hints.some((hint) => hint.type === type))
          .map(({ role }) => role),
        classifies: classifier?.type === type,
      })),
    })),
    refused: refused.map(({ specifier, version, reason, atMs }) => ({
      plugin: specifier,
      version,
      reason,
      atMs,
    })),
    roles: [
      ...roles.map((role) => ({
        ...role,
        containment: guards.filter((guard) => guard.role === role.role),
        notReady: failures.filter((failure) => failure.role === role.role),
      })),
      ...(classifier === null ? [] : [{ role: null, classifier, containment: ofClassifier }]),
    ],
  };
}
