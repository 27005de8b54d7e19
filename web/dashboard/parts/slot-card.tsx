import type { JSX } from "preact";
import type { SlotView } from "../../../src/api/management/views.ts";
import { stateWords } from "../../../src/api/state-words.ts";
import { now } from "../../shared/clock.ts";
import { bytes } from "../../shared/format.ts";
import { slotColour } from "../colours.ts";
import { firstConcern } from "../concern.ts";
import { failureText, isFailing } from "../failures.ts";
import { history } from "../history.ts";
import { figureOf } from "../traffic-steps.ts";
import { memoryOf } from "../memory.ts";
import { slotPath } from "../router.ts";
import { Remedy } from "./remedy.tsx";
import { Sentence } from "./sentence.tsx";
import { SlotActions } from "./slot-actions.tsx";
import { Spark } from "./spark.tsx";
import { State } from "./state.tsx";

/** One slot at a glance: how it is, what it holds, what it answers, and what a person should do. */
export function SlotCard({
  slot,
  colour,
}: {
  readonly slot: SlotView;
  readonly colour: number | undefined;
}): JSX.Element {
  const { name, aliases, model, conditions, in_flight: inFlight } = slot;
  const waiting = slot.queued + slot.held;
  const concern = firstConcern(conditions);
  const failed = isFailing(slot) ? failureText(slot, now()) : undefined;
  const tokens = figureOf(history.value, "tokens_out", name);
  const rate = tokens.slice(-3).reduce((sum, each) => sum + each, 0) / 15;
  return (
    <li class="card slot-card" aria-label={name}>
      <span class={`edge ${stateWords(slot).tone}`} aria-hidden="true" />
      <div class="slot-head">
        <h3>
          <span class={`swatch ${slotColour(colour)}`} aria-hidden="true" />
          <a href={slotPath(name)}>{name}</a>
          {aliases.length > 0 && (
            <span class="quiet">
              {" "}
              {aliases.length === 1 ? "alias" : "aliases"} {aliases.join(", ")}
            </span>
          )}
        </h3>
        <State slot={slot} />
      </div>
      <p class="quiet">{model ?? (slot.engine === "custom" ? "its own command" : "no model")}</p>
      {concern === undefined ? (
        <>
          <Spark values={tokens} />
          <p class="quiet number facts-line">
            <span>{rate > 0 ? `${rate.toFixed(0)} tok/s` : "no tokens now"}</span>
            <span>{bytes(memoryOf(slot))}</span>
            <span>
              {inFlight} in flight{waiting > 0 && ` + ${waiting} waiting`}
            </span>
          </p>
        </>
      ) : (
        <>
          <p class="concern">
            <Sentence text={concern.message} />
          </p>
          {failed !== undefined && <p class="quiet">{failed}</p>}
        </>
      )}
      <div class="row">
        <Remedy slot={slot} />
        <SlotActions slot={slot} />
      </div>
    </li>
  );
}
