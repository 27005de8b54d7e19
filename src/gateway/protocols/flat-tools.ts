import { z } from "zod";
import { isRecord } from "../../lib/record.ts";
import { checkRequest, encodeRequest } from "./json.ts";
import { chatFunction, flatToolSchema } from "./responses-tools.ts";

/** Whether a tool has its fields beside `type`, as Cursor sends them: a chat has them in `function` or `custom`. */
function isFlat(tool: unknown): boolean {
  if (!isRecord(tool) || (tool["type"] !== "function" && tool["type"] !== "custom")) return false;
  return typeof tool["name"] === "string" && tool[tool["type"]] === undefined;
}

/** `tools`: those of a request for a chat. */
export function hasFlatTools(tools: unknown): boolean {
  return Array.isArray(tools) && tools.some(isFlat);
}

const chatSchema = z.looseObject({ tools: z.array(z.unknown()), tool_choice: z.unknown().optional() });

/** A chat with its flat tools as functions of a chat, custom ones too. Throws ApiError `dispatch.invalid_request`. */
export function withNestedTools(body: Buffer): Buffer {
  const { tools, tool_choice: choice, ...chat } = checkRequest(chatSchema, body);
  return encodeRequest({
    ...chat,
    tools: tools.map((tool) => {
      const flat = isFlat(tool) ? flatToolSchema.safeParse(tool).data : undefined;
      return flat === undefined ? tool : chatFunction(flat, flat.name);
    }),
    tool_choice: isRecord(choice) && isFlat(choice) ? { type: "function", function: { name: choice["name"] } } : choice,
  });
}
