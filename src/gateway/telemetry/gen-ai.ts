/** OpenTelemetry's conventions for generative models, which are not stable and have no schema of their own to name. */
export const conventions = "https://github.com/open-telemetry/semantic-conventions-genai/tree/004902b8";

/** Names of these conventions. */
export const genAi = {
  operation: "gen_ai.operation.name",
  provider: "gen_ai.provider.name",
  requestModel: "gen_ai.request.model",
  responseModel: "gen_ai.response.model",
  inputTokens: "gen_ai.usage.input_tokens",
  outputTokens: "gen_ai.usage.output_tokens",
  errorType: "error.type",
} as const;

const operations: Readonly<Record<string, string>> = {
  "/v1/chat/completions": "chat",
  "/v1/messages": "chat",
  "/v1/responses": "chat",
  "/v1/completions": "text_completion",
  "/v1/embeddings": "embeddings",
  "/v1/images/generations": "generate_content",
};

/** The operation of a route; of routes that the conventions do not know, their own name. */
export function operationOf(route: string): string {
  return operations[route] ?? route.replace(/^\/v1\//, "").replaceAll("/", "_");
}
