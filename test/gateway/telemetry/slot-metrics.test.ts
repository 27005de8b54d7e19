import assert from "node:assert/strict";
import { it } from "node:test";
import { buildIndex } from "../../../src/gateway/routing/index.ts";
import { exportSlots, type SlotReaders } from "../../../src/gateway/telemetry/slot-metrics.ts";
import { MetricPage } from "../../../src/lib/metrics/page.ts";
import { publishedSlot } from "../../support/gateway.ts";

const indexOf = (names: readonly string[]): ReturnType<typeof buildIndex> =>
  buildIndex(
    {
      slots: () => names.map((name) => publishedSlot(name, {}, 1)),
      registry: () => ({ schema: 1, models: [], upstreams: [] }),
    },
    new Map(),
  );

it("the page has the slots of the present index, in their order", async () => {
  let index = indexOf(["later", "early"]);
  const page = new MetricPage();
  const readers: Omit<SlotReaders, "upstreams"> = {
    index: () => index,
    traffic: { inFlight: () => 2, stateOf: () => "ready" },
    admission: { counts: () => ({ held: 0, queued: 0 }) },
    unresolved: () => 3,
  };
  exportSlots(page, readers, () => undefined);
  const inFlight = async (): Promise<string[]> =>
    (
      String((await page.render()).body).match(/^berth_requests_in_flight\{.*|^.*slot="none".*|^.*="ready"\} 1$/gm) ??
      []
    )
      // Built-in slots are always there.
      .filter((line) => /"(early|later|new|none)"/.test(line));
  const lines = (...slots: readonly string[]): string[] => [
    ...slots.map((slot) => `berth_requests_in_flight{slot="${slot}"} 2`),
    'berth_requests_held{slot="none"} 3',
    ...slots.map((slot) => `berth_slot_state{slot="${slot}",state="ready"} 1`),
  ];
  assert.deepEqual(await inFlight(), lines("early", "later"));
  index = indexOf(["later", "new"]);
  assert.deepEqual(await inFlight(), lines("later", "new"));
});
