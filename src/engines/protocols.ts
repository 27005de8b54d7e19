import type { EngineProtocol } from "../api/names.ts";
import type { SlotInputs } from "./engine.ts";

/**
 * The protocols that a manifest declares for a custom engine. An engine with messages or responses may count tokens
 * too: the running engine is probed for that.
 */
export function declaredProtocols({ spec }: Pick<SlotInputs, "spec">): readonly EngineProtocol[] {
  const declared = spec.capabilities ?? [];
  return [
    ...(declared.includes("responses") ? (["responses", "input_tokens"] as const) : []),
    ...(declared.includes("messages") ? (["messages", "count_tokens"] as const) : []),
  ];
}
