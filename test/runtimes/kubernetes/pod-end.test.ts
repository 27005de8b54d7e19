import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import type { Call, Method } from "../../../src/kubernetes/client.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { podPath, podsOn, secretPath, start, withBearer } from "./fixture.ts";

const process = { role: "main", ordinal: 0 } as const;

/** DOUBLES an API server whose Pods end after their grace period, which is over at once where it is a second. */
class Graceful extends ApiDouble {
  /** The grace periods of the deletions that were requested, in seconds. */
  readonly graces: unknown[] = [];
  /** The answer to the deletion of that number, from 0; undefined: it is taken. */
  refusal: (nth: number) => ApiError | undefined = () => undefined;

  override async request(method: Method, path: string, call: Call = {}): Promise<unknown> {
    if (method !== "DELETE" || !path.includes("/pods/")) return await super.request(method, path, call);
    const { gracePeriodSeconds } = isRecord(call.body) ? call.body : {};
    const refusal = this.refusal(this.graces.length);
    this.graces.push(gracePeriodSeconds);
    if (refusal !== undefined) throw refusal;
    return gracePeriodSeconds === 1 ? await super.request(method, path, call) : this.get(path);
  }
}

describe("the end of a Pod", () => {
  it("is given no longer time at first than it is to have: the kubelet may keep the first one", async () => {
    await using pods = await podsOn(new Graceful());
    await start(pods);
    await pods.runtime.remove("primary", process, { stopSeconds: 3600, signal: AbortSignal.abort() });
    assert.deepEqual(pods.api.graces, [1]);
  });

  it("is asked for again at once where the API server did not take it", async () => {
    await using pods = await podsOn(new Graceful());
    const { api, runtime } = pods;
    await start(pods);
    const hurry = new AbortController();
    api.refusal = (nth) => {
      // Between the first deletion and its answer.
      hurry.abort();
      return nth === 1 ? new ApiError(503, "ServiceUnavailable", "try again") : undefined;
    };
    await runtime.remove("primary", process, { stopSeconds: 3600, signal: hurry.signal });
    assert.deepEqual(api.graces, [3600, 1, 1]);
    assert.equal(api.get(podPath), undefined);
  });

  it("is not believed of a Pod that another client changed while it was deleted", async () => {
    await using pods = await podsOn(new Graceful());
    const { api, runtime } = pods;
    await start(pods);
    api.refusal = (nth) => (nth === 0 ? new ApiError(409, "Conflict", "the object has been modified") : undefined);
    const removed = (): Promise<void> => runtime.remove("primary", process, { stopSeconds: 1 });
    await assert.rejects(removed(), { name: "RuntimeUnavailable", message: /was changed while it was deleted/ });
    assert.equal((await runtime.observe("primary")).length, 1);
    await removed();
    assert.deepEqual(await runtime.observe("primary"), []);
  });

  it("is that of its Secret, unless another operator has made that Secret meanwhile", async () => {
    for (const isOthers of [false, true]) {
      await using pods = await podsOn(new ApiDouble());
      const { api, runtime } = pods;
      await start(pods, { of: withBearer });
      api.before = (method, path) => {
        if (!isOthers || method !== "DELETE" || path !== podPath) return;
        api.before = () => undefined;
        api.put(secretPath, undefined);
        api.put(secretPath, { metadata: { name: "berth-primary-main-0", uid: "of the other operator" } });
      };
      await runtime.remove("primary", undefined, { stopSeconds: 0 });
      assert.equal(JSON.stringify(api.get(secretPath) ?? "").includes("of the other operator"), isOthers);
      assert.equal(api.get(secretPath) !== undefined, isOthers);
    }
  });
});
