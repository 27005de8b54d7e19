/**
 * Types of tools, items and parts in OpenAI's Responses reference that a chat engine cannot serve: a refusal names
 * them.
 */
const types: ReadonlySet<string> = new Set([
  "apply_patch",
  "apply_patch_call",
  "apply_patch_call_output",
  "code_interpreter",
  "code_interpreter_call",
  "compaction",
  "computer",
  "computer_call",
  "computer_call_output",
  "computer_use_preview",
  "custom",
  "custom_tool_call",
  "custom_tool_call_output",
  "file_search",
  "file_search_call",
  "image_generation",
  "image_generation_call",
  "input_audio",
  "input_file",
  "item_reference",
  "local_shell",
  "local_shell_call",
  "local_shell_call_output",
  "mcp",
  "mcp_approval_request",
  "mcp_approval_response",
  "mcp_call",
  "mcp_list_tools",
  "namespace",
  "shell",
  "shell_call",
  "shell_call_output",
  "tool_search",
  "web_search",
  "web_search_2025_08_26",
  "web_search_call",
  "web_search_preview",
  "web_search_preview_2025_03_11",
]);

export function isResponseType(type: unknown): type is string {
  return typeof type === "string" && types.has(type);
}
