import type { ComponentChildren, JSX } from "preact";
import type { SlotDetail, SlotView } from "../../../src/api/management/views.ts";
import { isUnloadedByHand } from "../../../src/api/unloaded.ts";
import { call } from "../../shared/api.ts";
import { now } from "../../shared/clock.ts";
import { bytes, duration, shortTime, time } from "../../shared/format.ts";
import { firstConcern, remedyOf } from "../concern.ts";
import { failureText, isFailing } from "../failures.ts";
import { history } from "../history.ts";
import { figureOf, firstTokens } from "../traffic-steps.ts";
import { connection, slots } from "../live.ts";
import { memoryOf } from "../memory.ts";
import { KeptDraft } from "../parts/kept-draft.tsx";
import { Show, useLoaded } from "../parts/load.tsx";
import { LogView } from "../parts/log.tsx";
import { ManifestEditor } from "../parts/manifest.tsx";
import { Remedy } from "../parts/remedy.tsx";
import { Sentence } from "../parts/sentence.tsx";
import { SlotActions } from "../parts/slot-actions.tsx";
import { SlotDetails } from "../parts/slot-details.tsx";
import { SlotEvents } from "../parts/slot-events.tsx";
import { SlotOverview } from "../parts/slot-overview.tsx";
import { State } from "../parts/state.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { slotPath } from "../router.ts";
import { loadState } from "../slot-order.ts";
import { withDefaults } from "../slot-defaults.ts";

const parts = { overview: "Overview", manifest: "Manifest", log: "Log", events: "Events", details: "Details" } as const;
type Part = keyof typeof parts;

interface SlotPageProps {
  readonly name: string;
  /** Undefined: the first one. */
  readonly part: string | undefined;
}

export function SlotPage({ name, part = "overview" }: SlotPageProps): JSX.Element {
  const live = slots.value.get(name);
  const conditions = live?.conditions.map(({ type, status, reason }) => `${type} ${status} ${reason}`).join();
  // With each request a loaded slot changes between its states, and nothing else of it.
  const keys = [
    name,
    live && loadState(live.state),
    live?.generation,
    live?.observed_generation,
    live?.restarts,
    conditions,
  ];
  const [detail, again] = useLoaded(
    async () => withDefaults(await call("GET /api/slots/{name}", { params: { name } })),
    keys,
  );
  const isGone = connection.value === "live" && live === undefined && detail.state === "failed";
  const loaded = detail.state === "loading" || isGone ? undefined : detail.value;
  // In one place of the page whichever came first: its buttons, which a person may have pressed, stay the same ones then.
  const current = live ?? loaded;
  const shown = isPart(part) ? part : "overview";
  return (
    <>
      <p class="crumbs">
        <a href="./">Overview</a> / {name}
      </p>
      {current === undefined ? <h1>{name}</h1> : <Head slot={current} />}
      {isGone && <KeptDraft slot={name} />}
      <Show of={isGone ? { ...detail, value: undefined } : detail}>
        {(slot) => (
          <>
            <Strip slot={live ?? slot} />
            <Tabs
              label={`Parts of ${name}`}
              parts={Object.entries(parts).map(([each, word]) => ({
                name: word,
                href: each === "overview" ? slotPath(name) : `${slotPath(name)}/${each}`,
              }))}
              current={parts[shown]}
            />
            {partOf(shown, { ...slot, ...live, transitions: slot.transitions }, again)}
          </>
        )}
      </Show>
    </>
  );
}

function isPart(name: string): name is Part {
  return Object.hasOwn(parts, name);
}

function partOf(part: Part, slot: SlotDetail, again: () => void): ComponentChildren {
  switch (part) {
    case "overview":
      return <SlotOverview slot={slot} />;
    case "manifest":
      return <ManifestEditor slot={slot} onSaved={again} />;
    case "log":
      return <LogView slot={slot.name} />;
    case "events":
      return <SlotEvents slot={slot} />;
    case "details":
      return <SlotDetails slot={slot} />;
    default:
      return part satisfies never;
  }
}

/** The name, the state and the actions of a slot, and what is wrong with it. */
function Head({ slot }: { readonly slot: SlotView }): JSX.Element {
  const concern = firstConcern(slot.conditions);
  const isNotSetUp = concern?.reason === "NotConfigured";
  const ready = slot.conditions.find(({ type }) => type === "Ready");
  const unloaded =
    slot.state === "offline" && ready !== undefined && isUnloadedByHand(ready.reason) ? ready : undefined;
  const failed = isFailing(slot) ? failureText(slot, now()) : undefined;
  const next = remedyOf(slot);
  const swapped = slot.model_origin === "swap" ? ", swapped in: the manifest names another one" : "";
  return (
    <>
      <div class="page-head">
        <div>
          <div class="row">
            <h1>{slot.name}</h1>
            <State slot={slot} />
          </div>
          <p class="quiet">
            {slot.model ?? (slot.engine === "custom" ? "its own command" : "no model")}
            {swapped}
          </p>
        </div>
        <SlotActions slot={slot} isPage />
      </div>
      {unloaded !== undefined && (
        <p class="quiet">It was {unloaded.message.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/, time)}. “Load” loads it now.</p>
      )}
      {concern !== undefined && (
        <div class={isNotSetUp ? "banner note" : slot.state === "error" ? "banner" : "banner care"}>
          <p>
            <Sentence text={concern.message} />
          </p>
          {next !== undefined && <p>{next.says}</p>}
          {failed !== undefined && <p>It {failed}.</p>}
          {slot.next_retry_at !== null && <p>The next try is at {time(slot.next_retry_at)}.</p>}
          <Remedy slot={slot} />
        </div>
      )}
    </>
  );
}

/** The figures of now. */
function Strip({ slot }: { readonly slot: SlotView }): JSX.Element {
  const tokens = figureOf(history.value, "tokens_out", slot.name).slice(-3);
  const first = firstTokens(history.value, "p50", slot.name).findLast((ms) => ms !== null);
  const waiting = slot.queued + slot.held;
  const available = slot.conditions.find(({ type }) => type === "Available");
  // Events leave out the time that a slot is up, since that changes all the time.
  const up = available?.status === "True" ? now() - Date.parse(available.lastTransitionTime) : undefined;
  const figures: readonly (readonly [string, string])[] = [
    ["Tokens/s", (tokens.reduce((sum, each) => sum + each, 0) / 15).toFixed(0)],
    ["First token", first === undefined || first === null ? "–" : shortTime(first)],
    ["In flight", `${slot.in_flight}${waiting > 0 ? ` + ${waiting} waiting` : ""}`],
    ["Memory", bytes(memoryOf(slot))],
    ["Up", up === undefined ? "–" : duration(Math.max(0, up / 1000))],
    ["Restarts", String(slot.restarts)],
  ];
  return (
    <dl class="strip" aria-label="Figures">
      {figures.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
