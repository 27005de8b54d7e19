import assert from "node:assert/strict";
import { join } from "node:path";
import { it } from "node:test";
import { doctorSite } from "./site.ts";

it("where slots are custom resources, `berth doctor` asks for no manifests and for no engine on this machine", async () => {
  await using site = await doctorSite();
  // The client of the cluster is that of this process.
  process.env["KUBECONFIG"] = join(site.stateDir, "no-such-file");
  const cluster = { SVC_STORE: "kubernetes", SVC_RUNTIME: "auto", SVC_LLAMA_SERVER: "", SVC_AUTH_ENABLED: "1" };
  const said = await site.examine(cluster);
  assert.match(said, /^ok +configuration: custom resources of the namespace/m);
  assert.match(said, /^ok +engines: run as Pods of the cluster$/m);
  assert.match(
    said,
    /^warn +operator: whether one runs cannot be seen \(.*no-such-file.*\)\n +→ try `kubectl get lease/m,
  );
  assert.doesNotMatch(said, /mkdir|llama-server|containers:/);
});
