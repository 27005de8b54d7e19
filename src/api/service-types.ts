/**
 * Types of tools, items and parts in the references of OpenAI's Responses and Anthropic's Messages that a chat engine
 * cannot serve, without their dates: refusals, headers and the log name them.
 */
const types: ReadonlySet<string> = new Set([
  "agent_message",
  "apply_patch",
  "bash",
  "code_execution",
  "code_interpreter",
  "code_interpreter_call",
  "compaction",
  "compaction_trigger",
  "computer",
  "computer_call",
  "computer_call_output",
  "computer_use_preview",
  "configuration_update",
  "container_upload",
  "context_compaction",
  "file_search",
  "file_search_call",
  "ghost_snapshot",
  "image_generation",
  "image_generation_call",
  "input_audio",
  "input_file",
  "local_shell",
  "mcp",
  "mcp_approval_request",
  "mcp_approval_response",
  "mcp_call",
  "mcp_list_tools",
  "mcp_toolset",
  "memory",
  "program",
  "program_output",
  "programmatic_tool_calling",
  "shell",
  "str_replace_based_edit_tool",
  "text_editor",
  "tool_search",
  "tool_search_call",
  "tool_search_tool_bm25",
  "tool_search_tool_regex",
  "web_fetch",
  "web_search",
  "web_search_call",
  "web_search_preview",
]);

export function isServiceType(type: unknown): type is string {
  return typeof type === "string" && types.has(type);
}
