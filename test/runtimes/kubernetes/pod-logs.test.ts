import assert from "node:assert/strict";
import { it } from "node:test";
import type { ApiClient } from "../../../src/kubernetes/client.ts";
import { firstPodLines, tailPodLogs } from "../../../src/runtimes/kubernetes/pod-logs.ts";

const lineCount = 200;

it("the lines of a Pod are followed in their order, however many come", async () => {
  const pod = { metadata: { name: "berth-a-main-0", uid: "u", resourceVersion: "1" } };
  const client: ApiClient = {
    namespace: "berth",
    server: "https://double",
    async request() {
      return { items: [pod] };
    },
    async lines(_path, { query = {} } = {}) {
      return (async function* () {
        if (query["follow"] !== true) return;
        for (let line = 1; line <= lineCount; line += 1) {
          await new Promise((resolve) => setImmediate(resolve));
          yield `2026-01-01T00:00:00.${String(line).padStart(9, "0")}Z line ${line}`;
        }
      })();
    },
    [Symbol.dispose]: () => undefined,
  };
  const stop = new AbortController();
  let read = 0;
  for await (const { line } of tailPodLogs(client, "a", { tail: 0, follow: true, signal: stop.signal })) {
    read += 1;
    assert.equal(line, `line ${read}`);
    if (read === lineCount) stop.abort();
  }
  assert.equal(read, lineCount);
});

it("the first lines of a Pod are those that came where its node stops in the middle of its answer", async () => {
  const client: ApiClient = {
    namespace: "berth",
    server: "https://double",
    request: () => assert.fail("no other request"),
    async lines(_path, { signal } = {}) {
      const ended = Promise.withResolvers<never>();
      signal?.addEventListener("abort", () => ended.reject(signal.reason), { once: true });
      return (async function* () {
        yield "load_tensors: offloaded 33/33 layers to GPU";
        await ended.promise;
      })();
    },
    [Symbol.dispose]: () => undefined,
  };
  // Keeps the process alive: the limit's own timer does not.
  const alive = setInterval(() => undefined, 1000);
  const words = await firstPodLines(client, "berth-a-main-0", 1024, 50).finally(() => clearInterval(alive));
  assert.equal(words, "load_tensors: offloaded 33/33 layers to GPU");
});
