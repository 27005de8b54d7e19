import type { JSX } from "preact";
import type { PlanView, SlotDetail, SlotView } from "../../../src/api/management/views.ts";
import { call } from "../../shared/api.ts";
import { bytes, duration, time } from "../../shared/format.ts";
import { connection, slots } from "../live.ts";
import { memoryOf } from "../memory.ts";
import { benchmarkText } from "../parts/benchmark.ts";
import { Action } from "../parts/action.tsx";
import { EnginePageLink } from "../parts/engine-page.tsx";
import { KeptDraft } from "../parts/kept-draft.tsx";
import { Show, useLoaded } from "../parts/load.tsx";
import { LogView } from "../parts/log.tsx";
import { firstConcern, nextStep, State } from "../parts/state.tsx";
import { ManifestEditor } from "../parts/manifest.tsx";
import { SwapForm } from "../parts/swap.tsx";
import { withDefaults } from "../slot-defaults.ts";

export function SlotPage({ name }: { readonly name: string }): JSX.Element {
  const live = slots.value.get(name);
  const at = `/api/slots/${encodeURIComponent(name)}`;
  const conditions = live?.conditions.map(({ type, status, reason }) => `${type} ${status} ${reason}`).join();
  const keys = [name, live?.state, live?.generation, live?.observed_generation, live?.restarts, conditions];
  const [detail, again] = useLoaded(async () => withDefaults(await call<SlotDetail>(at)), keys);
  const [plan] = useLoaded(() => call<PlanView>(`${at}/plan`), keys);
  const isGone = connection.value === "live" && live === undefined && detail.state === "failed";
  const loaded = detail.state === "loading" || isGone ? undefined : detail.value;
  // In one place of the page whichever came first: its buttons, which a person may have pressed, stay the same ones then.
  const current = live ?? loaded;
  return (
    <>
      <p class="crumbs">
        <a href="./">Overview</a> / {name}
      </p>
      <h1>{name}</h1>
      {current !== undefined && <Summary slot={current} at={at} />}
      {isGone && <KeptDraft at={at} />}
      <Show of={isGone ? { ...detail, value: undefined } : detail}>
        {(slot) => (
          <>
            <Facts slot={live ?? slot} />
            <EnginePageLink slot={name} />
            <h2>Plan</h2>
            <Show of={plan}>{(value) => <pre aria-label="Plan">{value.text}</pre>}</Show>
            <h2>Manifest</h2>
            <ManifestEditor at={at} slot={slot} onSaved={again} />
            <h2>What happened</h2>
            <Timeline slot={slot} />
            <h2>Log</h2>
            <LogView at={`${at}/logs`} />
          </>
        )}
      </Show>
    </>
  );
}

function Summary({ slot, at }: { readonly slot: SlotView; readonly at: string }): JSX.Element {
  const concern = firstConcern(slot.conditions);
  const next = nextStep(slot);
  const post = (act: string) => () => call(`${at}/${act}`, { method: "POST" });
  const isLoaded = slot.processes.length > 0;
  return (
    <>
      <p>
        <strong>
          <State slot={slot} />
        </strong>
        {concern !== undefined && <> · {concern.message}</>}
      </p>
      {next !== undefined && (
        <p class="next">
          <strong>Next:</strong> {next}
        </p>
      )}
      {slot.next_retry_at !== null && <p class="quiet">Tried again at {time(slot.next_retry_at)}.</p>}
      <div class="row">
        <Action onClick={post("load")} disabled={!slot.enabled}>
          Load
        </Action>
        <Action onClick={post("unload")} disabled={!isLoaded}>
          Unload
        </Action>
        <Action
          onClick={post("restart")}
          disabled={!slot.enabled}
          {...(slot.in_flight > 0
            ? { confirm: `${slot.in_flight} requests are being answered. Restart after them?` }
            : {})}
        >
          Restart
        </Action>
        <SwapForm slot={slot} at={at} />
      </div>
    </>
  );
}

function Facts({ slot }: { readonly slot: SlotView }): JSX.Element {
  const facts: readonly (readonly [string, string])[] = [
    [
      "Model",
      `${slot.model ?? "–"}${slot.model_origin === "swap" ? " (swapped in; the manifest names another one)" : ""}`,
    ],
    ["Engine", `${slot.engine} on ${slot.backend}, ${slot.runtime}`],
    ["Endpoint", slot.endpoint ?? "–"],
    ["Requests", `${slot.in_flight} in flight, ${slot.queued} queued, ${slot.held} held`],
    ["Memory", bytes(memoryOf(slot))],
    ["Needs", fitText(slot)],
    ["Loads", slot.load === "always" ? "always loaded" : "on demand"],
    ["Last load", duration(slot.last_load_seconds)],
    ["Last benchmark", benchmarkText(slot.last_benchmark)],
    ["Restarts", String(slot.restarts)],
    ["Aliases", slot.aliases.join(", ") || "–"],
  ];
  return (
    <>
      <h2>Facts</h2>
      <dl class="facts">
        {facts.map(([name, value]) => (
          <>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </>
        ))}
        {Object.entries(slot.decisions).map(([name, { value, reason }]) => (
          <>
            <dt>{name}</dt>
            <dd>
              {value} <span class="quiet">({reason})</span>
            </dd>
          </>
        ))}
      </dl>
      <h2>Conditions</h2>
      <div class="wide">
        <table aria-label="Conditions">
          <thead>
            <tr>
              <th scope="col">Condition</th>
              <th scope="col">Holds</th>
              <th scope="col">Reason</th>
              <th scope="col">Message</th>
              <th scope="col">Since</th>
            </tr>
          </thead>
          <tbody>
            {slot.conditions.map(({ type, status, reason, message, lastTransitionTime }) => (
              <tr key={type}>
                <td>{type}</td>
                <td>{status}</td>
                <td>{reason}</td>
                <td>{message}</td>
                <td class="figure">{time(lastTransitionTime)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function fitText({ fit }: SlotView): string {
  if (fit === null || fit === undefined) return "not known";
  const of = fit.budget_bytes === null ? "" : ` of ${bytes(fit.budget_bytes)}`;
  return `${bytes(fit.need_bytes)}${of} on ${fit.device} (${fit.stage})`;
}

function Timeline({ slot }: { readonly slot: SlotDetail }): JSX.Element {
  if (slot.transitions.length === 0) return <p class="quiet">Nothing yet.</p>;
  return (
    <div class="wide">
      <table aria-label="Transitions">
        <thead>
          <tr>
            <th scope="col">When</th>
            <th scope="col">From</th>
            <th scope="col">To</th>
            <th scope="col">Why</th>
          </tr>
        </thead>
        <tbody>
          {slot.transitions.toReversed().map(({ at, from, to, message }) => (
            <tr key={`${at}${to}`}>
              <td class="figure">{time(at)}</td>
              <td>{from}</td>
              <td>{to}</td>
              <td>{message}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
