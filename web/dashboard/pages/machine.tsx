import type { JSX } from "preact";
import type { HardwareView } from "../../../src/api/management/views.ts";
import { call } from "../../shared/api.ts";
import { bytes, time } from "../../shared/format.ts";
import { slots } from "../live.ts";
import { heldOn } from "../memory.ts";
import { Action } from "../parts/action.tsx";
import { Show, useLoaded } from "../parts/load.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { slotPath } from "../router.ts";
import { Groups } from "./groups.tsx";

export function MachinePage(): JSX.Element {
  const [hardware, again] = useLoaded(() => call<HardwareView>("/api/hardware"));
  return (
    <>
      <PageHead title="Machine" context="What it has, which slot holds what of it, and who shares it.">
        <Action onClick={() => call("/api/hardware/probe?wait=settled", { method: "POST" })} onDone={again}>
          Look again
        </Action>
      </PageHead>
      <Show of={hardware}>{(machine) => <Machine machine={machine} />}</Show>
      <Groups />
    </>
  );
}

function Machine({ machine }: { readonly machine: HardwareView }): JSX.Element {
  const { cpu, memory } = machine;
  return (
    <>
      <h2>Processor and memory</h2>
      <dl class="facts">
        <dt>Processor</dt>
        <dd>
          {cpu.model ?? cpu.architecture}, {cpu.cores ?? "?"} cores, {cpu.threads ?? "?"} threads
          {cpu.usable !== null && `, ${cpu.usable} of them for Berth`}
        </dd>
        <dt>Memory</dt>
        <dd>
          {bytes(memory.available_bytes)} available of {bytes(memory.usable_bytes)}
          {memory.limit_bytes !== null && ` (limited to ${bytes(memory.limit_bytes)})`}
        </dd>
      </dl>
      <Holders device="host" total={memory.usable_bytes} />
      {machine.gpus.map((gpu) => (
        <section key={gpu.id}>
          <h2>
            {gpu.name ?? `${gpu.vendor} GPU`} <span class="quiet">{gpu.id}</span>
          </h2>
          <dl class="facts">
            <dt>Memory</dt>
            <dd>
              {bytes(gpu.memory_bytes)}
              {gpu.memory_free_bytes !== null &&
                gpu.memory_free_bytes !== undefined &&
                `, ${bytes(gpu.memory_free_bytes)} free when it was looked at`}
            </dd>
            <dt>Backends</dt>
            <dd>{gpu.backends.join(", ") || "none"}</dd>
            <dt>Driver</dt>
            <dd>{gpu.driver ?? "–"}</dd>
          </dl>
          <Holders device={gpu.id} total={gpu.memory_bytes} />
        </section>
      ))}
      {machine.gpus.length === 0 && <p class="quiet">No GPU was found: models run on the processor.</p>}
      <h2>Disks</h2>
      <dl class="facts">
        {machine.disks.map((disk) => (
          <>
            <dt>{disk.use}</dt>
            <dd>
              {bytes(disk.free_bytes)} free of {bytes(disk.total_bytes)} <span class="quiet">{disk.path}</span>
            </dd>
          </>
        ))}
      </dl>
      <p class="quiet">Looked at {time(machine.probed_at)}.</p>
    </>
  );
}

/** What each slot holds of one device's memory, largest first. */
function Holders({ device, total }: { readonly device: string; readonly total: number | null }): JSX.Element | null {
  const held = [...slots.value.values()]
    .map((slot) => [slot, heldOn(slot, device)] as const)
    .filter(([, size]) => size > 0)
    .toSorted(([, one], [, other]) => other - one);
  if (held.length === 0) return null;
  return (
    <div class="wide">
      <table aria-label={`Memory of ${device} by slot`}>
        <thead>
          <tr>
            <th scope="col">Slot</th>
            <th scope="col">Holds</th>
          </tr>
        </thead>
        <tbody>
          {held.map(([slot, size]) => (
            <tr key={slot.name}>
              <td>
                <a href={slotPath(slot.name)}>{slot.name}</a>
              </td>
              <td>
                <meter min={0} max={total ?? size} value={size} aria-label={`${slot.name} holds`} /> {bytes(size)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
