import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { HardwareFacts } from "../../../src/api/hardware.ts";
import { withSuggestions } from "../../../src/engines/suggestion.ts";
import { coresOf, followHardware, type ProbeHardware } from "../../../src/operator/observe/hardware.ts";
import type { HardwareStore } from "../../../src/store/state/hardware.ts";
import { device } from "../../hardware/parts.ts";
import { pcFacts } from "../../hardware/tree.ts";
import { sharedSets } from "../../support/shared-sets.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";
import { published, specOf } from "../fixture.ts";
import { SlotMemories } from "../../../src/operator/slot-memory.ts";

const request = { schema: 1, token: "a", requestedAt: "2026-01-01T00:00:00.000Z" } as const;
const withCard: HardwareFacts = { ...pcFacts, kernel: "with card", devices: [device("/dev/nvidiactl")] };

type Options = Parameters<typeof followHardware>[0];

interface Scene extends AsyncDisposable {
  readonly store: HardwareStore;
  readonly errors: unknown[];
  start(look: ProbeHardware, more?: Partial<Options>): ReturnType<typeof followHardware>;
}

async function scene(): Promise<Scene> {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await tempDir());
  const { hardware: store } = stack.use(await sharedSets(directory.path));
  const errors: unknown[] = [];
  const onError = (error: unknown): void => void errors.push(error);
  const owned = stack.move();
  return {
    store,
    errors,
    start: async (probe, more) => {
      const memories = new SlotMemories();
      return owned.use(await followHardware({ store, memories, probe, onError, retryMs: 20, ...more }));
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** A look that is over when the test says so. */
function slowLook(): { look: ProbeHardware; begun: () => number; end: (facts: HardwareFacts) => void } {
  const under: ((facts: HardwareFacts) => void)[] = [];
  let begun = 0;
  return {
    look: async (asking) => {
      if (asking === undefined) return pcFacts;
      begun += 1;
      return await new Promise((resolve) => under.push(resolve));
    },
    begun: () => begun,
    end: (facts) => under.shift()?.(facts),
  };
}

describe("the operator's probe of the hardware", () => {
  it("is read before any slot is placed, and is then published with the output of vendors' programs", async () => {
    await using at = await scene();
    const { look, begun, end } = slowLook();
    const known = await at.start(look);
    assert.deepEqual(known.devicesFor("a", false), { hasNvidia: false, hasRenderNode: false, hasKfd: false });
    assert.deepEqual([begun(), at.store.found()], [1, undefined]);
    end(withCard);
    await until("it is published", () => at.store.found());
    assert.deepEqual(at.store.found(), { schema: 1, hardware: withSuggestions(withCard) });
  });

  it("runs no program of a vendor while the operator is paused, and leaves requests and what was published", async () => {
    await using at = await scene();
    const { look, begun } = slowLook();
    const known = await at.start(look, { isPaused: true });
    assert.deepEqual([begun(), at.store.found()], [0, { schema: 1, hardware: withSuggestions(pcFacts) }]);
    await at.store.requestProbe(request);
    await until("the request is seen", () => at.store.pending());
    await known[Symbol.asyncDispose]();
    const earlier = { schema: 1, hardware: withSuggestions(withCard) } as const;
    await at.store.publish(earlier);
    await at.start(look, { isPaused: true });
    assert.deepEqual([begun(), at.store.found(), at.store.pending()?.token], [0, earlier, "a"]);
  });

  it("is repeated on request; a request during a probe gets a probe of its own", async () => {
    await using at = await scene();
    const { look, begun, end } = slowLook();
    await at.start(look);
    await at.store.requestProbe(request);
    end(pcFacts);
    await until("it looks again", () => begun() === 2);
    assert.equal(at.store.found()?.answers, undefined);
    assert.deepEqual(at.store.pending(), request);
    end(withCard);
    await until("it is answered", () => at.store.pending() === undefined);
    assert.equal(at.store.found()?.hardware.kernel, "with card");
    assert.equal(begun(), 2);
  });

  it("that ends after the operator's own end is not published", async () => {
    await using at = await scene();
    const { look, end } = slowLook();
    let asking: AbortSignal | undefined;
    const known = await at.start((signal) => {
      asking = signal ?? asking;
      return look(signal);
    });
    const closed = known[Symbol.asyncDispose]();
    assert.equal(asking?.aborted, true);
    end(withCard);
    await closed;
    assert.equal(at.store.found(), undefined);
    await at.store.requestProbe(request);
    assert.deepEqual(at.store.pending(), request);
  });

  it("that cannot be published is logged, and tried again less and less often until it is published", async () => {
    await using at = await scene();
    const publish = at.store.publish.bind(at.store);
    at.store.publish = async (found) => {
      if (at.errors.length < 4) throw new Error("no space left");
      await publish(found);
    };
    const waits: number[] = [];
    const after = (ms: number, task: () => void): NodeJS.Timeout => {
      waits.push(ms);
      return setTimeout(task, 0);
    };
    await at.start(async () => pcFacts, { after });
    await until("it is published", () => at.store.found());
    const [first = 0, ...more] = waits;
    assert.deepEqual(
      more.map((ms) => Math.round(Math.log2(ms / first))),
      [1, 2, 3],
    );
  });

  it("changes the automatic backend of slots at rest, not of running slots", async () => {
    await using at = await scene();
    const { look, begun, end } = slowLook();
    const known = await at.start(look);
    const before = known.devicesFor("runs", false);
    end(withCard);
    await until("it is published", () => at.store.found());
    assert.equal(begun(), 1);
    assert.deepEqual(known.devicesFor("runs", true), before);
    assert.equal(known.devicesFor("rests", false).hasNvidia, true);
    assert.equal(
      known.devicesFor("adopted", true).hasNvidia,
      true,
      "of one that another operator started: what is there",
    );
    assert.equal(known.devicesFor("runs", false).hasNvidia, true, "once it has stopped");
    assert.equal(known.devicesFor("runs", true).hasNvidia, true);
  });

  it("keeps the backend that running slots have from an earlier operator, until their next load", async () => {
    await using at = await scene();
    const decisions = { backend: { value: "cpu", reason: "there is no GPU" } };
    const known = await at.start(async () => withCard, { published: [published({ decisions }, { spec: specOf() })] });
    assert.equal(known.devicesFor("primary", true).hasNvidia, false);
    assert.equal(known.devicesFor("primary", false).hasNvidia, true);
  });
});

it("engines compute on the fastest cores, and on no more than affinity or a control group allow", () => {
  const cpu = { ...pcFacts.cpu, cores: 16, usable: null };
  const said = [{}, { engine_cores: 8 }, { engine_cores: 8, usable: 5.5 }].map((more) => coresOf({ ...cpu, ...more }));
  assert.deepEqual(
    said.map((each) => `${each?.count} of ${each?.what}`),
    [
      "16 of 16 cores",
      "8 of 8 of 16 cores, the fastest that may be used",
      "5 of 5 of 16 cores, as affinity or control group allow",
    ],
  );
});
