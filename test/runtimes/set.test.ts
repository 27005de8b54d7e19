import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { RuntimeKind } from "../../src/api/names.ts";
import type { Observed } from "../../src/api/workload.ts";
import { aborted } from "../../src/lib/aborted.ts";
import { RuntimeUnavailable } from "../../src/runtimes/runtime-unavailable.ts";
import type { Runtime } from "../../src/runtimes/runtime.ts";
import { dockerTraits } from "../../src/runtimes/docker/traits.ts";
import { RuntimeSet } from "../../src/runtimes/set.ts";
import { traitsOfKind } from "../doubles/runtime-kinds.ts";
import { observed } from "../operator/fixture.ts";

const silence = new RuntimeUnavailable("the daemon does not answer");

/** A DOUBLE of a runtime that says and does what it is given; else it has nothing, and does not answer a removal. */
function part(kind: RuntimeKind, does: Partial<Runtime>): Runtime {
  return {
    traits: traitsOfKind[kind],
    list: async () => [],
    observe: async () => [],
    ensure: async () => undefined,
    remove: async () => undefined,
    // oxlint-disable-next-line no-empty-function -- it says nothing
    watch: async () => ({ [Symbol.dispose]: () => undefined }),
    [Symbol.asyncDispose]: async () => undefined,
    ...does,
  };
}

const silent = part("docker", {
  observe: () => Promise.reject(silence),
  remove: () => Promise.reject(silence),
});

async function setOf(first: Runtime, second: Runtime): Promise<RuntimeSet> {
  const set = new RuntimeSet(first, [{ traits: second.traits, open: async () => second }]);
  await set.need(second.traits.kind);
  return set;
}

/** Processes whose end is up to the test. */
function ending(found: readonly Observed[]): { readonly processes: Runtime; readonly end: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { processes: part("process", { observe: async () => found, remove: () => promise }), end: resolve };
}

async function isPending(work: Promise<unknown>): Promise<boolean> {
  const later = new Promise((resolve) => setImmediate(resolve, "pending"));
  return (await Promise.race([work.catch(() => undefined), later])) === "pending";
}

describe("the end of several runtimes", () => {
  it("also closes a runtime that is being opened, and aborts the opening", async () => {
    const ends: string[] = [];
    const late = part("docker", { [Symbol.asyncDispose]: async () => void ends.push("docker") });
    const open = async (signal: AbortSignal): Promise<Runtime> => {
      await aborted(signal);
      return late;
    };
    const set = new RuntimeSet(part("process", {}), [{ traits: dockerTraits, open }]);
    const opening = set.need("docker");
    await set[Symbol.asyncDispose]();
    assert.equal(await opening, late);
    assert.deepEqual(ends, ["docker"]);
  });

  it("can shorten its wait, also for runtimes that are opened later", async () => {
    const told: string[] = [];
    const hasty = (kind: RuntimeKind): Runtime =>
      part(kind, { limitUnreachableWait: (ms) => void told.push(`${kind} ${ms}`) });
    await using set = new RuntimeSet(hasty("process"), [{ traits: dockerTraits, open: async () => hasty("docker") }]);
    set.limitUnreachableWait(100);
    await set.need("docker");
    assert.deepEqual(told, ["process 100", "docker 100"]);
  });
});

describe("removing from several runtimes", () => {
  it("waits for the runtime that has the slot, and is not delayed by an unreachable one", async () => {
    const { processes, end } = ending([observed()]);
    await using set = await setOf(processes, silent);
    const removal = set.remove("primary", undefined, { stopSeconds: 30 });
    assert.equal(await isPending(removal), true);
    end();
    await removal;
  });

  it("fails where nothing was found and one runtime does not answer", async () => {
    await using set = await setOf(part("process", {}), silent);
    await assert.rejects(set.remove("primary", undefined, { stopSeconds: 30 }), silence);
  });

  it("fails with the error of one runtime, once the others are done", async () => {
    const { processes, end } = ending([observed()]);
    const refusal = new Error("it is still there");
    const containers = part("docker", {
      observe: async () => [observed({ id: { containerId: "c1" } })],
      remove: () => Promise.reject(refusal),
    });
    await using set = await setOf(processes, containers);
    const removal = set.remove("primary", undefined, { stopSeconds: 30 });
    assert.equal(await isPending(removal), true);
    end();
    await assert.rejects(removal, refusal);
  });
});
