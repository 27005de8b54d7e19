import type { JSX } from "preact";
import { call } from "../../shared/api.ts";
import { duration } from "../../shared/format.ts";
import { Show, useLoaded } from "../parts/load.tsx";

/** The version of this Berth, and where its documents are. */
export function About(): JSX.Element {
  const [status] = useLoaded(() => call("GET /api/status"));
  const [urls] = useLoaded(() => call("GET /api/config/urls"));
  return (
    <>
      <Show of={status}>
        {({ version, uptime_seconds: up }) => (
          <dl class="facts">
            <dt>Version</dt>
            <dd>{version}</dd>
            <dt>Up</dt>
            <dd>{duration(up)}</dd>
            <dt>API, for programs</dt>
            <dd>
              <a href="api/openapi.json" target="_self">
                OpenAPI
              </a>
            </dd>
            <dt>Metrics, for Prometheus</dt>
            <dd>
              <a href="metrics" target="_self">
                /metrics
              </a>
            </dd>
          </dl>
        )}
      </Show>
      <Show of={urls}>{({ chat }) => (chat === null ? <></> : <p>The chat page alone, for a phone: {chat}</p>)}</Show>
      <p class="quiet">Shortcuts: Ctrl-K finds everything. On a Mac: ⌘K.</p>
    </>
  );
}
