import type { JSX } from "preact";
import type { RequestView } from "../../../src/api/management/request-routes.ts";
import { base } from "../../shared/api.ts";
import { CopyButton } from "../../shared/copy-button.tsx";
import { Drawer } from "../../shared/drawer.tsx";
import { shortTime } from "../../shared/format.ts";
import { Pill } from "../../shared/pill.tsx";
import { curlTo } from "../client-lines.ts";
import { slots } from "../live.ts";
import { outcomeOf, rateOf } from "../request-words.ts";
import { slotPath } from "../router.ts";
import { Waterfall } from "./waterfall.tsx";

/** All that is known of one request. */
export function RequestDrawer({
  request,
  onClose,
}: {
  readonly request: RequestView;
  readonly onClose: () => void;
}): JSX.Element {
  const { tone, text } = outcomeOf(request);
  const rate = rateOf(request);
  const perSecond = rate === undefined ? "" : `, ${rate.toFixed(1)} a second`;
  const provider = /^upstream (.*)/.exec(request.slot)?.[1];
  const facts: readonly (readonly [string, string])[] = [
    ["Ended", new Date(request.ended_at).toLocaleString()],
    ["Route", request.route],
    ["Model", request.model],
    [provider === undefined ? "Slot" : "Provider", provider ?? request.slot],
    ["The engine's model", request.resolved ?? "–"],
    ["Whole time", shortTime(request.ms)],
    ["Held", shortTime(request.held_ms)],
    ["Queued", shortTime(request.queued_ms)],
    ["First token", request.first_token_ms === null ? "–" : shortTime(request.first_token_ms)],
    ["Engine", request.engine_ms === null ? "–" : shortTime(request.engine_ms)],
    ["Tokens", `${request.tokens_in ?? "–"} in, ${request.tokens_out ?? "–"} out${perSecond}`],
    ["Stream", request.stream ? "yes" : "no"],
    ["Id", request.id],
  ];
  return (
    <Drawer title="Request" onClose={onClose}>
      <p class="row">
        <Pill tone={tone}>{text}</Pill>
        {tone === "bad" && slots.value.has(request.slot) && (
          <a href={`${slotPath(request.slot)}/log`}>Log of {request.slot}</a>
        )}
      </p>
      <Waterfall request={request} slowest={request.ms} />
      {request.engine_error !== null && (
        <>
          <div class="chart-head">
            <h3>What the engine said</h3>
            <CopyButton text={request.engine_error} />
          </div>
          <pre class="wrapped">{request.engine_error}</pre>
        </>
      )}
      <dl class="facts">
        {facts.map(([name, value]) => (
          <>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </>
        ))}
      </dl>
      {request.body !== undefined && (
        <>
          <div class="chart-head">
            <h3>Body</h3>
            <CopyButton
              text={curlTo(new URL(request.route.replace(/^\//, ""), base).href, request.body)}
              label="Copy as curl"
            />
          </div>
          <pre>{request.body}</pre>
        </>
      )}
    </Drawer>
  );
}
