import type { JSX } from "preact";
import type { RequestView } from "../../../src/api/management/request-routes.ts";
import { list } from "../../shared/api.ts";
import { duration, time } from "../../shared/format.ts";
import { Show, useLoaded } from "../parts/load.tsx";
import { PageHead } from "../parts/page-head.tsx";

/** Milliseconds between two readings. */
const restMs = 3000;

export function RequestsPage(): JSX.Element {
  const [requests] = useLoaded(() => list<RequestView>("/api/requests?limit=200"), [], restMs);
  return (
    <>
      <PageHead title="Requests" context="The last requests that this gateway has answered, the newest first." />
      <Show of={requests}>{(all) => <Requests all={all} />}</Show>
    </>
  );
}

function Requests({ all }: { readonly all: readonly RequestView[] }): JSX.Element {
  if (all.length === 0) return <p>None yet.</p>;
  return (
    <div class="wide">
      <table aria-label="Requests">
        <thead>
          <tr>
            <th scope="col">Ended</th>
            <th scope="col">Route</th>
            <th scope="col">Model</th>
            <th scope="col">Slot</th>
            <th scope="col">Outcome</th>
            <th scope="col">Took</th>
            <th scope="col">Waited</th>
            <th scope="col">First token</th>
            <th scope="col">Tokens</th>
          </tr>
        </thead>
        <tbody>
          {all.map((request) => (
            <tr key={request.id}>
              <td class="figure">{time(request.ended_at)}</td>
              <td>{request.route}</td>
              <td>
                {request.model}
                {request.body !== undefined && (
                  <details>
                    <summary>Body</summary>
                    <pre>{request.body}</pre>
                  </details>
                )}
              </td>
              <td>{request.slot}</td>
              <td class={request.status < 400 && request.error === null ? "good" : "bad"}>
                {request.status}
                {request.error !== null && ` ${request.error}`}
              </td>
              <td class="figure">{duration(request.ms / 1000)}</td>
              <td class="figure">{duration((request.held_ms + request.queued_ms) / 1000)}</td>
              <td class="figure">{request.first_token_ms === null ? "–" : duration(request.first_token_ms / 1000)}</td>
              <td class="figure">
                {request.tokens_in ?? "–"} in, {request.tokens_out ?? "–"} out
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
