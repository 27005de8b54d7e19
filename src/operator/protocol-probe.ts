import type { EngineProtocol } from "../api/names.ts";
import type { Probe, ProbeRequest, ProbeResult } from "./probe.ts";

interface Question {
  readonly path: string;
  readonly body: unknown;
}

const messages = [{ role: "user", content: "hi" }];

/**
 * Requests that any version which has the route answers with a count, and with no line in its log: llama-server came by
 * messages and their count together, by the count of a response later than by responses.
 */
const counts = {
  responses: { path: "/v1/responses/input_tokens", body: { input: "hi" } },
  messages: { path: "/v1/messages/count_tokens", body: { messages } },
  count_tokens: { path: "/v1/messages/count_tokens", body: { messages } },
  input_tokens: { path: "/v1/chat/completions/input_tokens", body: { messages } },
} as const satisfies Record<EngineProtocol, Question>;

/** Where there is no count: an empty request is refused where the route is, with a warning in the engine's log. */
const empties: Readonly<Partial<Record<EngineProtocol, Question>>> = {
  responses: { path: "/v1/responses", body: {} },
  messages: { path: "/v1/messages", body: {} },
};

/** Answers that say that there is no such route, whatever the body. */
const absent: readonly (number | undefined)[] = [404, 405, 501];

/**
 * Of the protocols that an engine may speak, those that this version of it does. Never rejects; what does not answer is
 * taken at the adapter's word.
 */
export async function spokenProtocols(
  probe: Probe,
  claimed: readonly EngineProtocol[],
  request: Pick<ProbeRequest, "port" | "timeoutMs" | "bearer"> & { readonly signal: AbortSignal },
): Promise<readonly EngineProtocol[]> {
  const answers = new Map<string, ProbeResult>();
  const hasRoute = async (question: Question): Promise<boolean> => {
    const result = answers.get(question.path) ?? (await probe({ ...request, ...question }));
    answers.set(question.path, result);
    return result.outcome !== "failed" || !absent.includes(result.status);
  };
  const spoken: EngineProtocol[] = [];
  for (const protocol of claimed) {
    const empty = empties[protocol];
    if ((await hasRoute(counts[protocol])) || (empty !== undefined && (await hasRoute(empty)))) spoken.push(protocol);
  }
  return spoken;
}
