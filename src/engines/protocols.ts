import type { EngineProtocol } from "../api/names.ts";
import type { SlotInputs } from "./engine.ts";

/**
 * What a manifest says of an engine that only its author knows. Who speaks messages or responses may count tokens too:
 * the running engine is asked.
 */
export function declaredProtocols({ spec }: Pick<SlotInputs, "spec">): readonly EngineProtocol[] {
  const declared = spec.capabilities ?? [];
  return [
    ...(declared.includes("responses") ? (["responses", "input_tokens"] as const) : []),
    ...(declared.includes("messages") ? (["messages", "count_tokens"] as const) : []),
  ];
}
