import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Kind } from "../../src/api/names.ts";
import type { Origin } from "../../src/store/origin.ts";
import type { DesiredSource } from "../../src/store/store.ts";
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

/** What every DesiredSource promises. */
export function describeSource(title: string, open: () => Promise<SourceUnderTest>): void {
  describe(`${title} as a desired source`, { concurrency: true }, () => {
    it("shows a declared resource, with defaults, and notifies with its key", async () => {
      await using env = await open();
      using heard = listen(env.source);
      await env.put("Slot", "primary", slot);
      const seen = await until("the slot", () => env.source.get("Slot", "primary"));
      assert.equal(seen.spec?.model.default, "qwen3-4b");
      assert.equal(seen.spec?.engine, "llama");
      assert.equal(seen.spec?.idleSeconds, 600);
      assert.deepEqual(seen.diagnostics, []);
      assert.ok(heard.keys.includes("Slot/primary"));
      assert.deepEqual(
        env.source.list("Slot").map(({ name }) => name),
        ["primary"],
      );
    });

    it("says where a person changes it, and counts its specs or leaves that to the operator", async () => {
      await using env = await open();
      await env.put("Slot", "a", slot);
      const first = await until("the slot", () => env.source.get("Slot", "a"));
      assert.deepEqual(first.origin, env.originOf("Slot", "a"));
      await env.put("Slot", "a", { ...slot, idleSeconds: 5 });
      const second = await until("the edit", () => {
        const now = env.source.get("Slot", "a");
        return now?.specHash === first.specHash ? undefined : now;
      });
      assert.deepEqual(second.origin, first.origin);
      if (first.generation === undefined) assert.equal(second.generation, undefined);
      else assert.ok(Number(second.generation) > first.generation);
    });

    it("keeps kinds apart", async () => {
      await using env = await open();
      await env.put("Model", "same", { source: "file:///m.gguf" });
      await env.put("Upstream", "same", { baseUrl: "https://example.com/v1", models: [{ ref: "a" }] });
      await until("both", () => env.source.get("Model", "same") && env.source.get("Upstream", "same"));
      assert.equal(env.source.get("Slot", "same"), undefined);
      assert.equal(env.source.get("Model", "same")?.spec?.source, "file:///m.gguf");
      assert.equal(env.source.get("Upstream", "same")?.spec?.baseUrl, "https://example.com/v1");
    });

    it("changes the hash exactly when the spec changes", async () => {
      await using env = await open();
      await env.put("Slot", "a", slot);
      const first = await until("the slot", () => env.source.get("Slot", "a"));
      await env.put("Slot", "a", slot, { team: "x" });
      const labelled = await until("the label", () => {
        const now = env.source.get("Slot", "a");
        return now?.labels["team"] === "x" ? now : undefined;
      });
      assert.equal(labelled.specHash, first.specHash);
      await env.put("Slot", "a", { ...slot, idleSeconds: 5 });
      await until("another hash", () => env.source.get("Slot", "a")?.specHash !== first.specHash);
      await env.put("Slot", "a", slot);
      await until("the first hash again", () => env.source.get("Slot", "a")?.specHash === first.specHash);
    });

    it("notifies with the changed key only", async () => {
      await using env = await open();
      for (const name of ["a", "b", "c"]) await env.put("Slot", name, slot);
      await until("all three", () => env.source.list("Slot").length === 3);
      using heard = listen(env.source);
      await env.put("Slot", "b", { ...slot, idleSeconds: 7 });
      await until("the edit", () => env.source.get("Slot", "b")?.spec?.idleSeconds === 7);
      await env.source.resync();
      assert.deepEqual(new Set(heard.keys), new Set(["Slot/b"]));
    });

    it("keeps the last good spec after a broken edit and names the problem", async () => {
      await using env = await open();
      await env.put("Slot", "a", slot);
      const good = await until("the slot", () => env.source.get("Slot", "a"));
      await env.put("Slot", "a", { ...slot, idleSecnds: 9 });
      const broken = await until("the diagnosis", () => {
        const now = env.source.get("Slot", "a");
        return now !== undefined && now.diagnostics.length > 0 ? now : undefined;
      });
      assert.deepEqual(broken.spec, good.spec);
      assert.equal(broken.specHash, good.specHash);
      assert.match(broken.diagnostics[0]?.message ?? "", /did you mean idle_?seconds/i);
      await env.put("Slot", "a", slot);
      await until("no diagnosis", () => env.source.get("Slot", "a")?.diagnostics.length === 0);
    });

    it("shows a resource that was never valid without a spec", async () => {
      await using env = await open();
      await env.put("Slot", "a", { backend: "steam" });
      const seen = await until("the slot", () => env.source.get("Slot", "a"));
      assert.equal(seen.spec, undefined);
      assert.ok(seen.diagnostics.length > 0);
    });

    it("forgets a removed resource, the last one too, and notifies with its key", async () => {
      await using env = await open();
      await env.put("Slot", "a", slot);
      await until("the slot", () => env.source.get("Slot", "a"));
      using heard = listen(env.source);
      await env.remove("Slot", "a");
      await until("its end", () => env.source.get("Slot", "a") === undefined);
      assert.deepEqual(heard.keys, ["Slot/a"]);
    });

    it("says nothing after the watch is disposed", async () => {
      await using env = await open();
      let count = 0;
      env.source.watch(() => count++)[Symbol.dispose]();
      await env.put("Slot", "a", slot);
      await until("the slot", () => env.source.get("Slot", "a"));
      assert.equal(count, 0);
    });
  });
}
