import type { JSX } from "preact";
import type { SlotDetail, SlotView } from "../../../src/api/management/views.ts";
import { call } from "../../shared/api.ts";
import { bytes, duration } from "../../shared/format.ts";
import { When } from "../../shared/when.tsx";
import { memoryOf } from "../memory.ts";
import { loadState } from "../slot-order.ts";
import { benchmarkText } from "./benchmark.ts";
import { Show, useLoaded } from "./load.tsx";

/** All that Berth knows of a slot: facts, what it has decided and why, conditions, and its plan. */
export function SlotDetails({ slot }: { readonly slot: SlotDetail }): JSX.Element {
  const { name } = slot;
  const [plan] = useLoaded(
    () => call("GET /api/slots/{name}/plan", { params: { name } }),
    [slot.generation, loadState(slot.state), slot.model],
  );
  return (
    <>
      <h2>Facts</h2>
      <dl class="facts">
        {factsOf(slot).map(([name, value]) => (
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
      <Conditions slot={slot} />
      <h2>Plan</h2>
      <Show of={plan}>{(value) => <pre aria-label="Plan">{value.text}</pre>}</Show>
    </>
  );
}

function factsOf(slot: SlotView): readonly (readonly [string, string])[] {
  return [
    ["State", slot.state],
    ["Model", slot.model ?? "–"],
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
    ["File", slot.file ?? "–"],
  ];
}

function fitText({ fit }: SlotView): string {
  if (fit === null || fit === undefined) return "not known";
  const of = fit.budget_bytes === null ? "" : ` of ${bytes(fit.budget_bytes)}`;
  return `${bytes(fit.need_bytes)}${of} on ${fit.device} (${fit.stage})`;
}

function Conditions({ slot }: { readonly slot: SlotView }): JSX.Element {
  return (
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
              <td>
                <When at={lastTransitionTime} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
