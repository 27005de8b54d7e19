import assert from "node:assert/strict";
import { it } from "node:test";
import type { ApiClient } from "../../../src/lib/kubernetes/client.ts";
import { firstPodLines } from "../../../src/runtimes/kubernetes/pod-logs.ts";

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
