import type { JSX } from "preact";
import type { SlotView } from "../../../src/api/management/views.ts";
import { isAvailable } from "../../../src/api/states.ts";
import { now } from "../../shared/clock.ts";
import { firstConcern } from "../concern.ts";
import { failedSlots, failureText, isFailing } from "../failures.ts";
import { slotPath } from "../router.ts";
import { Remedy } from "./remedy.tsx";
import { Sentence } from "./sentence.tsx";
import { State } from "./state.tsx";

const most = 5;

/** The slots that fail now, and those that failed within a day and have recovered; nothing where none has. */
export function Failures({ slots }: { readonly slots: readonly SlotView[] }): JSX.Element | null {
  const all = failedSlots(slots);
  if (all.length === 0) return null;
  return (
    <section class="card failures" aria-label="Failures">
      <h2>Failed now, or in the last 24 hours</h2>
      <Lines slots={all.slice(0, most)} />
      {all.length > most && (
        <details>
          <summary>{all.length - most} more</summary>
          <Lines slots={all.slice(most)} />
        </details>
      )}
    </section>
  );
}

function Lines({ slots }: { readonly slots: readonly SlotView[] }): JSX.Element {
  return (
    <ul>
      {slots.map((slot) => {
        const isFailed = isFailing(slot);
        const message = slot.state === "error" ? firstConcern(slot.conditions)?.message : slot.recent_failures?.message;
        const hasRecovered = isAvailable(slot.state);
        return (
          <li key={slot.name}>
            <div>
              <p class="row">
                <a href={slotPath(slot.name)}>{slot.name}</a>
                <State slot={slot} />
                {hasRecovered && <span class="good">recovered</span>}
                <span class="quiet">{failureText(slot, now())}</span>
              </p>
              <p class="concern">
                <Sentence text={message ?? slot.last_error?.message ?? ""} />
              </p>
            </div>
            {isFailed && <Remedy slot={slot} />}
          </li>
        );
      })}
    </ul>
  );
}
