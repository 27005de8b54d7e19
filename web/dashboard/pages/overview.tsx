import { Plus } from "lucide";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { SlotView } from "../../../src/api/management/views.ts";
import { isAvailable } from "../../../src/api/states.ts";
import { call } from "../../shared/api.ts";
import { Icon } from "../../shared/icon.tsx";
import { isFailing } from "../failures.ts";
import { connection, lostBecause, slots } from "../live.ts";
import { Failures } from "../parts/failures.tsx";
import { Loading, useLoaded } from "../parts/load.tsx";
import { MemoryMap } from "../parts/memory-map.tsx";
import { NewSlotDialog } from "../parts/new-slot-dialog.tsx";
import { Metrics } from "../parts/metrics.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { SlotList } from "../parts/slot-list.tsx";
import { TrafficChart } from "../parts/traffic-chart.tsx";
import { isSetUp } from "../slot-order.ts";
import { FirstRun } from "./first-run.tsx";

/** All slots, what is asked of them, and who holds the memory: in ten seconds. */
export function OverviewPage(): JSX.Element {
  const [hardware] = useLoaded(() => call("GET /api/hardware"));
  const machine = hardware.state === "loading" ? undefined : hardware.value;
  const all = [...slots.value.values()];
  const [isCreating, setCreating] = useState(false);
  return (
    <>
      <PageHead title="Overview" context={all.length === 0 ? undefined : contextOf(all)}>
        <button type="button" class="main" onClick={() => setCreating(true)}>
          <Icon of={Plus} />
          New slot
        </button>
      </PageHead>
      {isCreating && <NewSlotDialog onClose={() => setCreating(false)} />}
      {all.length === 0 ? (
        <NoSlots />
      ) : (
        <FirstRun hasGpu={(machine?.gpus ?? []).length > 0}>
          <Failures slots={all} />
          <Metrics />
          <div class="two-to-one">
            <section class="card" aria-label="Traffic">
              <TrafficChart />
            </section>
            <section class="card" aria-label="Memory">
              <h2>Memory</h2>
              {machine !== undefined && <MemoryMap machine={machine} slots={all} />}
            </section>
          </div>
          <SlotList all={all} />
        </FirstRun>
      )}
    </>
  );
}

/** The state of all slots in a line, e.g. `3 of 5 slots ready, 1 failed · berth.local`. */
function contextOf(all: readonly SlotView[]): string {
  const setUp = all.filter(isSetUp);
  const ready = setUp.filter(({ state }) => isAvailable(state)).length;
  const failed = setUp.filter(isFailing).length;
  return `${ready} of ${setUp.length} slots ready${failed > 0 ? `, ${failed} failed` : ""} · ${location.host}`;
}

function NoSlots(): JSX.Element {
  switch (connection.value) {
    case "live":
      return <p role="status">No slot is declared yet: make one with “New slot”.</p>;
    case "refused":
      return <p role="alert">{lostBecause.value}</p>;
    case "lost":
      return <p role="status">The slots are shown once Berth answers.</p>;
    case "connecting":
      return <Loading />;
    default:
      return connection.value satisfies never;
  }
}
