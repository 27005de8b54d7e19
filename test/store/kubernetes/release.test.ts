import assert from "node:assert/strict";
import { it } from "node:test";
import { apiVersion } from "../../../src/api/names.ts";
import { acquireLease } from "../../../src/kubernetes/lease-election.ts";
import { release } from "../../../src/store/kubernetes/release.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { until } from "../../support/until.ts";

const path = `/apis/${apiVersion}/namespaces/berth/slots/a`;

/**
 * What the Job says of a release whose operator is that Deployment, while the operator of that identity leads, and the API server
 * takes longer than `patchMs` for each PATCH.
 */
async function releasedBeside(
  identity: string,
  { deployment = "home-operator", patchMs = 0 } = {},
): Promise<{ said: string; isFree: boolean }> {
  using api = new ApiDouble();
  const metadata = { finalizers: ["berth.dev/engine"] };
  api.put(path, { apiVersion, kind: "Slot", metadata, spec: { enabled: false } });
  const candidate = { client: api, name: "berth-operator", identity, labels: {}, annotations: () => ({}) };
  await using _held = await acquireLease(candidate, { onLost: () => undefined });
  api.before = async (method) => {
    const beganMs = performance.now();
    if (method === "PATCH") await until("the time is over", () => performance.now() - beganMs > patchMs);
  };
  let said = "";
  await release(api, { deployment, seconds: 0.3, write: (text) => void (said += text) });
  return { said, isFree: !JSON.stringify(api.get(path)).includes("berth.dev/engine") };
}

it("the end of a release leaves the slots of another installation, whose operator leads, as they are", async () => {
  for (const identity of ["berth-operator-79dc57bc7b-f465h_1", "home-operator-operator-79dc57bc7b-f465h_1", "laptop_1"])
    assert.deepEqual(await releasedBeside(identity), {
      said: `the operator ${identity} leads in this namespace: the other slots are left to it\n`,
      isFree: false,
    });
});

it("the end of a release frees all slots where its own operator does not end in time", async () => {
  assert.deepEqual(await releasedBeside("home-operator-79dc57bc7b-f465h_1"), {
    said: "the operator has not ended after 0.3 s: going on without\nslot a: released\n",
    isFree: true,
  });
});

it("the end of a release reports nothing that is done, where the API server takes all of the time for it", async () => {
  assert.deepEqual(await releasedBeside("home-operator-79dc57bc7b-f465h_1", { patchMs: 300 }), {
    said: "the operator has not ended after 0.3 s: going on without\nslot a: released\n",
    isFree: true,
  });
});

it("the end of a release knows its operator by the name of its Pod also where Kubernetes has cut that name", async () => {
  const deployment = `${"the-language-models-of-the-whole-household".slice(0, 40)}-operator`;
  const prefix = `${deployment}-79dc57bc7b-`;
  assert.ok(prefix.length > 58);
  const { isFree } = await releasedBeside(`${prefix.slice(0, 58)}f465h_1`, { deployment });
  assert.equal(isFree, true);
  const other = `${"a".repeat(40)}-operator-79dc57bc7b-`.slice(0, 58);
  assert.deepEqual(await releasedBeside(`${other}f465h_1`, { deployment }), {
    said: `the operator ${other}f465h_1 leads in this namespace: the other slots are left to it
`,
    isFree: false,
  });
});
