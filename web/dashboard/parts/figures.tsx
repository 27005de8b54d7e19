import type { JSX } from "preact";
import type { HardwareView } from "../../../src/api/management/views.ts";
import { call } from "../../shared/api.ts";
import { bytes } from "../../shared/format.ts";
import { slots } from "../live.ts";
import { heldOn } from "../memory.ts";
import type { Traffic } from "../traffic.ts";
import { useLoaded } from "./load.tsx";

/** Milliseconds between two readings of what the machine has: devices change seldom. */
const restMs = 60_000;
const none = "–";

/** The whole machine in one line: what is asked of it, and what of its memory is held. */
export function Figures({ traffic }: { readonly traffic: Traffic }): JSX.Element {
  const all = [...slots.value.values()];
  const waiting = all.reduce((sum, { queued, held }) => sum + queued + held, 0);
  const perSecond = [...traffic.rates.values()].reduce((sum, rates) => sum + (rates.at(-1) ?? 0), 0);
  const { perMinute, errorShare } = traffic;
  const figures: readonly (readonly [string, string])[] = [
    [
      "In flight",
      `${all.reduce((sum, { in_flight: count }) => sum + count, 0)}${waiting > 0 ? ` + ${waiting} waiting` : ""}`,
    ],
    ["Tokens/s", perMinute === undefined ? none : perSecond.toFixed(0)],
    ["Requests/min", perMinute === undefined ? none : perMinute.toFixed(0)],
    ["Errors", errorShare === undefined ? none : `${(100 * errorShare).toFixed(errorShare < 0.1 ? 1 : 0)} %`],
    ...useMemory(),
  ];
  return (
    <dl class="figures" aria-label="Figures at a glance">
      {figures.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** What slots hold of the host's memory, and of the GPUs' where there are any. An older server, or a refusal, has no totals. */
function useMemory(): readonly (readonly [string, string])[] {
  const [hardware] = useLoaded(() => call<Partial<HardwareView>>("/api/hardware"), [], restMs);
  const machine = hardware.state === "loading" ? undefined : hardware.value;
  const heldOf = (device: string): number =>
    [...slots.value.values()].reduce((sum, slot) => sum + heldOn(slot, device), 0);
  const text = (held: number, total: number | null | undefined): string =>
    total === null || total === undefined ? bytes(held) : `${bytes(held)} of ${bytes(total)}`;
  const gpus = machine?.gpus ?? [];
  const held = gpus.reduce((sum, { id }) => sum + heldOf(id), 0);
  const isKnown = gpus.every(({ memory_bytes: size }) => size !== null);
  const total = isKnown ? gpus.reduce((sum, { memory_bytes: size }) => sum + (size ?? 0), 0) : undefined;
  return [
    ["Memory", text(heldOf("host"), machine?.memory?.usable_bytes)],
    ...(gpus.length === 0 ? [] : [["GPU memory", text(held, total)] as const]),
  ];
}
