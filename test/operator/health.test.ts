import assert from "node:assert/strict";
import { it } from "node:test";
import { completeSlot, slotSpecSchema } from "../../src/api/slot.ts";
import { HealthBook } from "../../src/operator/health.ts";
import { epoch, later, observed } from "./fixture.ts";

const spec = completeSlot("primary", slotSpecSchema.parse({ model: { default: "tiny" } }));

it("an engine is probed on when the clock is set back", async () => {
  let probes = 0;
  using health = new HealthBook(async () => {
    probes += 1;
    return { outcome: "healthy" };
  });
  const look = async (now: Date): Promise<void> => {
    await health.look(observed(), { path: "/health", warmUp: undefined }, spec, undefined, now, false);
    await new Promise((resolve) => setImmediate(resolve));
  };
  await look(later(3600));
  await look(later(3601));
  assert.equal(probes, 1);
  await look(epoch);
  assert.equal(probes, 2);
});
