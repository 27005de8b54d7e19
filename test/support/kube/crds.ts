import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ApiServer } from "./control-plane.ts";
import { until } from "../until.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));

/** Gives the cluster Berth's kinds, and waits until they are served. */
export async function installKinds(plane: Pick<ApiServer, "kubectl">): Promise<void> {
  await plane.kubectl(["apply", "--server-side", "--force-conflicts", "-f", join(root, "crds")]);
  await waitForKinds(plane);
}

export async function waitForKinds(plane: Pick<ApiServer, "kubectl">): Promise<void> {
  await plane.kubectl(["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]);
  // An established kind answers 404 or 429 for a moment.
  for (const plural of ["slots", "models", "upstreams", "slotgroups"])
    await until("the kind is served", async () => {
      await plane.kubectl(["get", `${plural}.berth.dev`]);
      return true;
    });
}
