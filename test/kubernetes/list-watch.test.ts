import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ApiClient, Call } from "../../src/kubernetes/client.ts";
import { ListWatch } from "../../src/kubernetes/list-watch.ts";
import { until } from "../support/until.ts";

interface Listed {
  readonly version: string;
  /** The version of each object by its name. */
  readonly objects: Readonly<Record<string, string>>;
}

/** A DOUBLE of an API server of one collection, whose watches tell what a test says and stay open. */
class Collection implements ApiClient {
  readonly namespace = "berth";
  readonly server = "https://double";
  listed: Listed = { version: "100", objects: {} };
  /** The lines of the next watch, which ends after them; absent: it tells nothing and stays open. */
  nextLines: readonly object[] | undefined;
  lists = 0;
  /** The version from which each watch began. */
  readonly watchedFrom: unknown[] = [];

  async request(): Promise<unknown> {
    this.lists += 1;
    const items = Object.entries(this.listed.objects).map(([name, resourceVersion]) => ({
      metadata: { name, uid: name, resourceVersion },
    }));
    return { items, metadata: { resourceVersion: this.listed.version } };
  }

  async lines(_path: string, { query, signal }: Pick<Call, "query" | "signal"> = {}): Promise<AsyncIterable<string>> {
    this.watchedFrom.push(query?.["resourceVersion"]);
    const told = this.nextLines;
    this.nextLines = undefined;
    const ended = Promise.withResolvers<void>();
    signal?.addEventListener("abort", () => ended.resolve(), { once: true });
    return (async function* () {
      yield* (told ?? []).map((line) => JSON.stringify(line));
      if (told === undefined) await ended.promise;
    })();
  }

  [Symbol.dispose](): void {}
}

const bookmark = (resourceVersion: string): object => ({ type: "BOOKMARK", object: { metadata: { resourceVersion } } });

describe("a list-watch", () => {
  it("goes on from the version of a bookmark", async () => {
    const api = new Collection();
    api.nextLines = [bookmark("117")];
    await using _watch = ListWatch.start({ client: api, path: "/slots", onChange: () => undefined });
    await until("another watch", () => api.watchedFrom.length > 1);
    assert.deepEqual([api.watchedFrom, api.lists], [["100", "117"], 1]);
  });

  it("gives up a watch that stays open for longer than it was asked for, and tells nothing", async () => {
    const api = new Collection();
    await using _watch = ListWatch.start({
      client: api,
      path: "/slots",
      onChange: () => undefined,
      watchSeconds: 0.2,
    });
    await until("another watch", () => api.watchedFrom.length > 1);
  });

  it("lists again after long silence, and believes a datastore that was restored from a backup", async () => {
    const api = new Collection();
    api.listed = { version: "100", objects: { a: "90", gone: "95" } };
    const names: string[] = [];
    await using watch = ListWatch.start({
      client: api,
      path: "/slots",
      onChange: (changed) => names.push(...changed),
      watchSeconds: 0.2,
    });
    await watch.synced();
    api.listed = { version: "60", objects: { a: "55", b: "58" } };
    await until("the restored objects", () => watch.get("a")?.meta.resourceVersion === "55");
    assert.deepEqual([watch.get("gone"), watch.get("b")?.meta.resourceVersion], [undefined, "58"]);
    assert.deepEqual(new Set(names), new Set(["a", "b", "gone"]));
    await until("a watch from there", () => api.watchedFrom.at(-1) === "60");
    api.listed = { version: "61", objects: { a: "61", b: "58" } };
    await until("an edit since", () => watch.get("a")?.meta.resourceVersion === "61");
  });
});
