// The admin API of a running router: what it answers is looked up in the router's parts.
import { type AdminServer, createAdminServer } from '../admin/index.ts';
import { configForDisplay, type RouterConfig, writtenTimingProfile } from '../config/index.ts';
import { NO_DECISIONS, type Readiness, type ScrapableMetrics } from '../observe/index.ts';
import { type Logger, PointsmanError } from '../plugin/index.ts';
import { adminFeed } from './admin-feed.ts';
import type { ComposedRouter } from './compose-router.ts';
import type { EventSubscriptions } from './event-subscriptions.ts';
import { pluginsStatus } from './plugins-status.ts';
import type { ReportedLoads } from './reported-loads.ts';
import type { RouterReload } from './router-reload.ts';
import { workerStatus } from './worker-status.ts';

/** Starts it. @throws PointsmanError PM_LISTEN when its port is taken. */
export function startAdmin(
  { config, log }: { readonly config: RouterConfig; readonly log: Logger },
  parts: {
    readonly core: ComposedRouter;
    readonly metrics: ScrapableMetrics;
    readonly readiness: () => Readiness;
    readonly url: string;
    readonly subscriptions: EventSubscriptions | null;
    readonly reportedLoads: ReportedLoads;
    readonly reload: RouterReload;
  },
): Promise<AdminServer> {
  const { core, metrics, readiness, url, subscriptions, reportedLoads, reload } = parts;
  const { host, port, token } = config.admin;
  return createAdminServer({
    host,
    port,
    token,
    log,
    metrics,
    decisions: core.decisions ?? NO_DECISIONS,
    workers: () => workerStatus(core, subscriptions?.status() ?? [], reportedLoads),
    plugins: () => pluginsStatus(core.host, reload.last),
    reload: () => reload.request('command'),
    busyThresholds: core.busy,
    timingProfile: () => writtenTimingProfile(core.scheduler.timings.profile()),
    config: () => configForDisplay(reload.config),
    ready: readiness,
    events: adminFeed(core.fleet, core.decisions),
    addresses: { API: `${url}/v1` },
  }).catch((thrown: NodeJS.ErrnoException) => {
    const why = thrown.code === 'EADDRINUSE' ? 'another process uses that port' : thrown.message;
    throw new PointsmanError('PM_LISTEN', `the admin API cannot listen on ${host}:${port}: ${why}`, {
      cause: thrown,
      details: { host, port },
    });
  });
}
