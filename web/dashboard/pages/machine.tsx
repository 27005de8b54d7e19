import type { JSX } from "preact";
import type { HardwareView } from "../../../src/api/management/views.ts";
import { call } from "../../shared/api.ts";
import { Boundary } from "../../shared/boundary.tsx";
import { bytes, time } from "../../shared/format.ts";
import { reading, readings, slots } from "../live.ts";
import { Action } from "../parts/action.tsx";
import { Bar } from "../parts/bar.tsx";
import { Show, useLoaded } from "../parts/load.tsx";
import { MemoryMap } from "../parts/memory-map.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { Spark } from "../parts/spark.tsx";
import { Groups } from "./groups.tsx";

export function MachinePage(): JSX.Element {
  const [hardware, again] = useLoaded(() => call("GET /api/hardware"));
  return (
    <>
      <PageHead title="Machine" context="What it has, which slot holds what of it, and who shares it.">
        {hardware.state === "here" && <span class="quiet">Looked at {time(hardware.value.probed_at)}</span>}
        <Action onClick={() => call("POST /api/hardware/probe", { query: { wait: "settled" } })} onDone={again}>
          Look again
        </Action>
      </PageHead>
      <Boundary>
        <Show of={hardware}>{(machine) => <Machine machine={machine} />}</Show>
      </Boundary>
      <Groups />
    </>
  );
}

function Machine({ machine }: { readonly machine: HardwareView }): JSX.Element {
  const { cpu, memory } = machine;
  const now = reading.value ?? machine.now;
  return (
    <div class="stack">
      <section class="card" aria-label="Memory">
        <h2>Memory</h2>
        <MemoryMap machine={machine} slots={[...slots.value.values()]} />
      </section>
      <ul class="cards">
        {machine.gpus.map((gpu) => (
          <GpuCard key={gpu.id} gpu={gpu} now={now?.gpus.find(({ id }) => id === gpu.id)} />
        ))}
        <li class="card" aria-label="Processor">
          <h2>{cpu.model ?? cpu.architecture}</h2>
          {machine.gpus.length === 0 && <p class="quiet">No GPU was found: models run on the processor.</p>}
          <dl class="facts">
            <dt>Busy</dt>
            <dd>
              {now?.cpu_percent === null && readings.value.length < 2 ? (
                <span class="quiet">measured over 5 s …</span>
              ) : (
                percent(now?.cpu_percent)
              )}
              <History values={readings.value.map((each) => each.cpu_percent)} most={100} />
            </dd>
            <dt>Cores</dt>
            <dd>
              {cpu.cores ?? "?"}, {cpu.threads ?? "?"} threads
              {cpu.usable !== null && `; Berth may use ${cpu.usable}`}
            </dd>
            <dt>Memory</dt>
            <dd>
              {bytes(memory.usable_bytes)}
              {memory.limit_bytes !== null && ` (limited to ${bytes(memory.limit_bytes)})`},{" "}
              {now === null
                ? `${bytes(memory.available_bytes)} free when it was looked at`
                : `${bytes(now.memory.free_bytes)} free`}
            </dd>
            <dt>Instructions</dt>
            <dd>{cpu.features.join(", ") || "–"}</dd>
          </dl>
        </li>
        <li class="card" aria-label="Disks">
          <h2>Disks</h2>
          {machine.disks.map((disk) => (
            <DiskBar key={disk.use} disk={disk} />
          ))}
        </li>
        <li class="card" aria-label="Backends">
          <h2>Backend of each engine</h2>
          <dl class="facts">
            {Object.entries(machine.suggested).map(([engine, { backend, reason, obstacles }]) => (
              <>
                <dt>{engine}</dt>
                <dd>
                  {backend}: <span class="quiet">{reason}</span>
                  {obstacles.map((obstacle) => (
                    <div key={obstacle} class="busy">
                      {obstacle}
                    </div>
                  ))}
                </dd>
              </>
            ))}
          </dl>
        </li>
      </ul>
    </div>
  );
}

interface HistoryProps {
  readonly values: readonly (number | null)[];
  readonly most?: number;
}

/** A line of the last readings; nothing where there are fewer than two. */
function History({ values, most }: HistoryProps): JSX.Element | null {
  if (values.filter((value) => value !== null).length < 2) return null;
  return (
    <div class="history" title="At most the last 15 min, read each 5 s while the dashboard is open">
      <Spark values={values} {...(most === undefined ? {} : { most })} />
    </div>
  );
}

type GpuReading = NonNullable<HardwareView["now"]>["gpus"][number];

function GpuCard({
  gpu,
  now,
}: {
  readonly gpu: HardwareView["gpus"][number];
  readonly now: GpuReading | undefined;
}): JSX.Element {
  const free = gpu.memory_free_bytes;
  const used = now?.used_bytes ?? null;
  const celsius = now?.temperature_celsius ?? null;
  const valuesOf = (figure: (each: GpuReading) => number | null): readonly (number | null)[] =>
    readings.value.map(({ gpus }) => {
      const own = gpus.find(({ id }) => id === gpu.id);
      return own === undefined ? null : figure(own);
    });
  return (
    <li class="card" aria-label={gpu.name ?? gpu.id}>
      <h2>{gpu.name ?? `${gpu.vendor} GPU`}</h2>
      <dl class="facts">
        <dt>Memory</dt>
        <dd>
          {bytes(gpu.memory_bytes)}
          {used !== null && `, ${bytes(used)} used`}
          {used === null && free !== null && free !== undefined && `, ${bytes(free)} free when it was looked at`}
          <History
            values={valuesOf((each) => each.used_bytes)}
            {...(gpu.memory_bytes === null ? {} : { most: gpu.memory_bytes })}
          />
        </dd>
        <dt>Busy</dt>
        <dd>
          {percent(now?.utilization_percent)}
          <History values={valuesOf((each) => each.utilization_percent)} most={100} />
        </dd>
        <dt>Temperature</dt>
        <dd>
          {celsius === null ? "–" : `${celsius} °C`}
          <History values={valuesOf((each) => each.temperature_celsius)} most={100} />
        </dd>
        <dt>Backends</dt>
        <dd>{gpu.backends.join(", ") || "none"}</dd>
        <dt>Driver</dt>
        <dd>{gpu.driver ?? "–"}</dd>
        <dt>Address</dt>
        <dd>{gpu.id}</dd>
      </dl>
    </li>
  );
}

function percent(share: number | null | undefined): string {
  return share === null || share === undefined ? "–" : `${share} %`;
}

const uses = { models: "Models", state: "State" } as const;

function DiskBar({ disk }: { readonly disk: HardwareView["disks"][number] }): JSX.Element {
  const { total_bytes: total, free_bytes: free } = disk;
  const share = total === null || free === null || total === 0 ? undefined : 1 - free / total;
  return (
    <div class="fit">
      <span>
        {uses[disk.use] ?? disk.use} <span class="quiet">{disk.path}</span>
      </span>
      {share !== undefined && <Bar share={share} tone={share > 0.95 ? "bad" : share > 0.85 ? "busy" : "good"} />}
      <span class="quiet number">
        {bytes(free)} free of {bytes(total)}
      </span>
    </div>
  );
}
