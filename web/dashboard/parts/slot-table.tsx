import type { JSX } from "preact";
import type { SlotView } from "../../../src/api/management/views.ts";
import { now } from "../../shared/clock.ts";
import { bytes } from "../../shared/format.ts";
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

/** Many slots, a line each. */
export function SlotTable({ slots }: { readonly slots: readonly SlotView[] }): JSX.Element {
  return (
    <div class="wide">
      <table aria-label="Slots">
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">State</th>
            <th scope="col">Model</th>
            <th scope="col" class="figure">
              Requests
            </th>
            <th scope="col">Tokens</th>
            <th scope="col" class="figure">
              Memory
            </th>
            <th scope="col">Says</th>
            <th scope="col">
              <span class="unseen">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {slots.map((slot) => (
            <Row key={slot.name} slot={slot} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ slot }: { readonly slot: SlotView }): JSX.Element {
  const concern = firstConcern(slot.conditions);
  const waiting = slot.queued + slot.held;
  return (
    <tr>
      <td>
        <a href={slotPath(slot.name)}>{slot.name}</a>
      </td>
      <td>
        <State slot={slot} />
      </td>
      <td data-label="Model">{slot.model ?? "–"}</td>
      <td class="figure" data-label="Requests">
        {slot.in_flight}
        {waiting > 0 && <span class="busy"> + {waiting} waiting</span>}
      </td>
      <td>
        <Spark values={figureOf(history.value, "tokens_out", slot.name)} />
      </td>
      <td class="figure" data-label="Memory">
        {bytes(memoryOf(slot))}
      </td>
      <td>
        {concern !== undefined && (
          <>
            <Sentence text={concern.message} />
            {isFailing(slot) && <p class="quiet">{failureText(slot, now())}</p>}
            <Remedy slot={slot} />
          </>
        )}
      </td>
      <td>
        <SlotActions slot={slot} />
      </td>
    </tr>
  );
}
