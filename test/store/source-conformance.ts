import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Kind } from "../../src/api/names.ts";
import type { Origin } from "../../src/store/origin.ts";
import type { Desired, DesiredSource } from "../../src/store/store.ts";
import { until } from "../support/until.ts";

/** A fresh, empty source and a person's hands on it. */
export interface SourceUnderTest extends AsyncDisposable {
  readonly source: DesiredSource;
  /** Declares a resource as a person would; resolves once it is stored, not once it is seen. */
  put(kind: Kind, name: string, spec: object, labels?: Readonly<Record<string, string>>): Promise<void>;
  remove(kind: Kind, name: string): Promise<void>;
  /** Where a person changes what `put` declared. */
  originOf(kind: Kind, name: string): Origin;
}

/** Collects the keys that a source reports, as `Kind/name`. */
export function listen(source: DesiredSource): Disposable & { readonly keys: string[] } {
  const keys: string[] = [];
  const watch = source.watch((kind, name) => keys.push(`${kind}/${name}`));
  return { keys, [Symbol.dispose]: () => watch[Symbol.dispose]() };
}

const slot = { model: { default: "qwen3-4b" } };

type Found = Desired<"Slot">;

/** What every DesiredSource promises. */
export function describeSource(title: string, open: () => Promise<SourceUnderTest>): void {
  /** A source, and the Slot `a` in it. */
  const scene = async (spec?: object) => {
    const env = await open();
    const { source } = env;
    const get = (): Found | undefined => source.get("Slot", "a");
    /** Waits until the Slot is as wanted. */
    const seen = async (what: string, isWanted: (found: Found) => boolean = () => true): Promise<Found> =>
      await until(what, () => {
        const found = get();
        return found !== undefined && isWanted(found) && found;
      });
    /** Declares the Slot anew. */
    const put = async (changed: object, labels?: Readonly<Record<string, string>>): Promise<void> =>
      await env.put("Slot", "a", changed, labels);
    if (spec !== undefined) {
      await put(spec);
      await seen("the slot");
    }
    return { env, source, get, seen, put, [Symbol.asyncDispose]: () => env[Symbol.asyncDispose]() };
  };

  describe(`${title} as a desired source`, { concurrency: true }, () => {
    it("shows a declared resource, with defaults and its origin, and notifies with its key", async () => {
      await using at = await scene();
      using heard = listen(at.source);
      await at.put(slot);
      const found = await at.seen("the slot");
      const { spec } = found;
      assert.deepEqual([spec?.model.default, spec?.engine, spec?.idleSeconds], ["qwen3-4b", "llama", 600]);
      assert.deepEqual([found.diagnostics, found.origin], [[], at.env.originOf("Slot", "a")]);
      assert.ok(heard.keys.includes("Slot/a"));
      assert.deepEqual(
        at.source.list("Slot").map(({ name }) => name),
        ["a"],
      );
    });

    it("changes the hash exactly when the spec changes, and counts its specs or leaves that to the operator", async () => {
      await using at = await scene(slot);
      const first = await at.seen("the slot");
      await at.put(slot, { team: "x" });
      const labelled = await at.seen("the label", ({ labels }) => labels["team"] === "x");
      assert.equal(labelled.specHash, first.specHash);
      await at.put({ ...slot, idleSeconds: 5 });
      const second = await at.seen("another hash", ({ specHash }) => specHash !== first.specHash);
      assert.deepEqual(second.origin, first.origin);
      if (first.generation === undefined) assert.equal(second.generation, undefined);
      else assert.ok(Number(second.generation) > first.generation);
      await at.put(slot);
      await at.seen("the first hash again", ({ specHash }) => specHash === first.specHash);
    });

    it("keeps kinds apart", async () => {
      await using at = await scene();
      await at.env.put("Model", "a", { source: "file:///m.gguf" });
      await at.env.put("Upstream", "a", { baseUrl: "https://example.com/v1", models: [{ ref: "a" }] });
      await until("both", () => at.source.get("Model", "a") && at.source.get("Upstream", "a"));
      assert.equal(at.get(), undefined);
      assert.equal(at.source.get("Model", "a")?.spec?.source, "file:///m.gguf");
      assert.equal(at.source.get("Upstream", "a")?.spec?.baseUrl, "https://example.com/v1");
    });

    it("notifies with the changed key only", async () => {
      await using at = await scene(slot);
      for (const name of ["b", "c"]) await at.env.put("Slot", name, slot);
      await until("all three", () => at.source.list("Slot").length === 3);
      using heard = listen(at.source);
      await at.put({ ...slot, idleSeconds: 7 });
      await at.seen("the edit", ({ spec }) => spec?.idleSeconds === 7);
      await at.source.resync();
      assert.deepEqual(new Set(heard.keys), new Set(["Slot/a"]));
    });

    it("keeps the last good spec after a broken edit and names the problem", async () => {
      await using at = await scene(slot);
      const good = await at.seen("the slot");
      await at.put({ ...slot, idleSecnds: 9 });
      const broken = await at.seen("the diagnosis", ({ diagnostics }) => diagnostics.length > 0);
      assert.deepEqual([broken.spec, broken.specHash], [good.spec, good.specHash]);
      assert.match(broken.diagnostics[0]?.message ?? "", /did you mean idle_?seconds/i);
      await at.put(slot);
      await at.seen("no diagnosis", ({ diagnostics }) => diagnostics.length === 0);
    });

    it("shows a resource that was never valid without a spec", async () => {
      await using at = await scene({ backend: "steam" });
      assert.equal(at.get()?.spec, undefined);
      assert.ok((at.get()?.diagnostics.length ?? 0) > 0);
    });

    it("forgets a removed resource, the last one too, and notifies with its key", async () => {
      await using at = await scene(slot);
      using heard = listen(at.source);
      await at.env.remove("Slot", "a");
      await until("its end", () => at.get() === undefined);
      assert.deepEqual(heard.keys, ["Slot/a"]);
    });

    it("says nothing after the watch is disposed", async () => {
      await using at = await scene();
      let count = 0;
      at.source.watch(() => count++)[Symbol.dispose]();
      await at.put(slot);
      await at.seen("the slot");
      assert.equal(count, 0);
    });
  });
}
