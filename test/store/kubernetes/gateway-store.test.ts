import assert from "node:assert/strict";
import { it } from "node:test";
import { readSecretKey } from "../../../src/store/kubernetes/gateway-store.ts";
import { ApiDouble } from "../../doubles/api-client.ts";

it("a key of a Secret is read, and none of Berth's own Secrets or of service accounts", async () => {
  using api = new ApiDouble();
  const data = { token: Buffer.from("k1").toString("base64") };
  const put = (name: string, more: object = {}): void =>
    api.put(`/api/v1/namespaces/berth/secrets/${name}`, { data, ...more });
  put("acme");
  put("berth-tokens");
  put("pod", { metadata: { labels: { "app.kubernetes.io/managed-by": "berth" } } });
  put("account", { type: "kubernetes.io/service-account-token" });
  assert.equal(await readSecretKey(api, "acme", "token"), "k1");
  assert.equal(await readSecretKey(api, "acme", "other"), undefined);
  assert.equal(await readSecretKey(api, "gone", "token"), undefined);
  for (const name of ["berth-tokens", "pod", "account"])
    await assert.rejects(readSecretKey(api, name, "token"), /name one of your own$/, name);
});
