import { isStatus } from "../../lib/kubernetes/api-error.ts";
import type { ApiClient } from "../../lib/kubernetes/client.ts";
import { texts } from "../../lib/kubernetes/object.ts";
import { isRecord } from "../../lib/record.ts";
import { corePath, fieldManager, tokensSecret } from "./names.ts";

/**
 * The value of a key of a person's Secret; undefined without such a Secret or key. Rejects with ApiError, and for Secrets of
 * Berth or of service accounts: whoever may write an Upstream must not have them sent to an address of their own.
 */
export async function readSecretKey(client: ApiClient, name: string, key: string): Promise<string | undefined> {
  let object: unknown;
  try {
    object = await client.request("GET", `${corePath("secrets", client.namespace)}/${encodeURIComponent(name)}`);
  } catch (error) {
    if (isStatus(error, 404)) return undefined;
    throw error;
  }
  if (!isRecord(object) || !isRecord(object["data"])) return undefined;
  const labels = isRecord(object["metadata"]) ? texts(object["metadata"]["labels"]) : {};
  const isOwn = name === tokensSecret || labels["app.kubernetes.io/managed-by"] === fieldManager;
  if (isOwn || object["type"] === "kubernetes.io/service-account-token")
    throw new Error("it is a Secret of Berth or of a service account; name one of your own");
  const value = object["data"][key];
  return typeof value === "string" ? Buffer.from(value, "base64").toString() : undefined;
}
