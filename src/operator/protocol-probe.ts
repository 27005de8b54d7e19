import type { EngineProtocol } from "../api/names.ts";
import type { Probe, ProbeRequest } from "./probe.ts";

const paths = {
  responses: "/v1/responses",
  messages: "/v1/messages",
  count_tokens: "/v1/messages/count_tokens",
} as const satisfies Record<EngineProtocol, string>;

/** Answers that say that there is no such route, whatever the body. */
const absent: readonly (number | undefined)[] = [404, 405, 501];

/**
 * Of the protocols that an engine may speak, those that this version of it does: an empty request is refused where the
 * route is, and not found where it is not. Never rejects; what does not answer is taken at the adapter's word.
 */
export async function spokenProtocols(
  probe: Probe,
  claimed: readonly EngineProtocol[],
  request: Pick<ProbeRequest, "port" | "timeoutMs" | "bearer"> & { readonly signal: AbortSignal },
): Promise<readonly EngineProtocol[]> {
  const spoken: EngineProtocol[] = [];
  for (const protocol of claimed) {
    const result = await probe({ ...request, path: paths[protocol], body: {} });
    if (result.outcome !== "failed" || !absent.includes(result.status)) spoken.push(protocol);
  }
  return spoken;
}
