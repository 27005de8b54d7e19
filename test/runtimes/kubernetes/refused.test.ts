import assert from "node:assert/strict";
import { it } from "node:test";
import { ApiError } from "../../../src/lib/kubernetes/api-error.ts";
import { openKubernetesRuntime } from "../../../src/runtimes/kubernetes/kubernetes.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { llama, site, workload } from "./manifests.ts";

it("a Pod that the API server refuses leaves no Secret behind", async () => {
  const api = new ApiDouble();
  await using runtime = await openKubernetesRuntime({ client: api, site });
  api.before = (method, path) => {
    if (method === "POST" && path.endsWith("/pods")) throw new ApiError(422, "Invalid", "spec.nodeName: not a name");
  };
  const bearer = { env: "LLAMA_API_KEY" };
  await runtime.ensure({ ...workload, env: { LLAMA_API_KEY: "b3arer" }, bearer, container: llama });
  const [refused] = await runtime.observe(workload.slot);
  assert.deepEqual([refused?.phase, refused?.exit?.reason], ["exited", "StartFailed"]);
  assert.ok(api.seen.some((each) => /^POST .*\/secrets$/.test(each)));
  assert.equal(api.get("/api/v1/namespaces/berth/secrets/berth-primary-main-0"), undefined);
});
