import { CommandError } from "../../cli/client.ts";
import { ApiError, ApiUnreachable } from "../../kubernetes/api-error.ts";
import { openApiClient, type ApiClient } from "../../kubernetes/client.ts";
import { connect, NoConnection } from "../../kubernetes/connection.ts";
import { errorMessage } from "../../lib/error-code.ts";

/** The cluster of the environment, for one command. Throws CommandError with the API server's own words. */
export async function withCluster(env: NodeJS.ProcessEnv, use: (client: ApiClient) => Promise<void>): Promise<void> {
  try {
    using client = openApiClient(await connect(env));
    await use(client);
  } catch (error) {
    if (error instanceof NoConnection)
      throw new CommandError("cluster.unknown", error.message, "set KUBECONFIG, or run this in a Pod");
    if (error instanceof ApiUnreachable)
      throw new CommandError("cluster.unreachable", errorMessage(error), "try `kubectl get --raw /readyz`");
    if (error instanceof ApiError)
      throw new CommandError("cluster.refused", error.message, "docs/kubernetes.md lists the rights that it takes");
    throw error;
  }
}
