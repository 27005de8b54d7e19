import type { ApiClient } from "../kubernetes/client.ts";
import type { ReleaseOptions } from "./kubernetes/release.ts";

/** For a tool: the end of an installation in a cluster, whose operator goes for good. Rejects with the API server's error. */
export async function releaseCluster(client: ApiClient, options: ReleaseOptions): Promise<void> {
  const { release } = await import("./kubernetes/release.ts");
  await release(client, options);
}
