import type { EngineProtocol } from "../../api/names.ts";
import type { Probe, ProbeRequest, ProbeResult } from "./probe.ts";

interface CountRequest {
  readonly path: string;
  readonly body: unknown;
}

const messages = [{ role: "user", content: "hi" }];

/**
 * Requests that any version with the route answers with a count, and without a line in its log: llama-server got
 * messages and their count together, the count of a response later than responses.
 */
const counts = {
  responses: { path: "/v1/responses/input_tokens", body: { input: "hi" } },
  messages: { path: "/v1/messages/count_tokens", body: { messages } },
  count_tokens: { path: "/v1/messages/count_tokens", body: { messages } },
  input_tokens: { path: "/v1/chat/completions/input_tokens", body: { messages } },
} as const satisfies Record<EngineProtocol, CountRequest>;

/** Without a count: an empty request is refused where the route exists, with a warning in the engine's log. */
const empties: Readonly<Partial<Record<EngineProtocol, CountRequest>>> = {
  responses: { path: "/v1/responses", body: {} },
  messages: { path: "/v1/messages", body: {} },
};

/** Statuses that mean that there is no such route, with any body. */
const absent: readonly (number | undefined)[] = [404, 405, 501];

/**
 * The protocols that this version of the engine has, among the possible ones. Never rejects; without an answer the
 * adapter's list counts.
 */
export async function spokenProtocols(
  probe: Probe,
  claimed: readonly EngineProtocol[],
  request: Pick<ProbeRequest, "host" | "port" | "timeoutMs" | "bearer"> & { readonly signal: AbortSignal },
): Promise<readonly EngineProtocol[]> {
  const answers = new Map<string, ProbeResult>();
  const hasRoute = async (countRequest: CountRequest): Promise<boolean> => {
    const result = answers.get(countRequest.path) ?? (await probe({ ...request, ...countRequest }));
    answers.set(countRequest.path, result);
    return result.outcome !== "failed" || !absent.includes(result.status);
  };
  const spoken: EngineProtocol[] = [];
  for (const protocol of claimed) {
    const empty = empties[protocol];
    if ((await hasRoute(counts[protocol])) || (empty !== undefined && (await hasRoute(empty)))) spoken.push(protocol);
  }
  return spoken;
}
