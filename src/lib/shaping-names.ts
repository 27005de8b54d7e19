/**
 * Top-level fields that constrain the answer's form: names of llama.cpp, OpenAI, Anthropic and vLLM; with the last four
 * llama.cpp allocates memory or trusts its parser.
 */
export const shapingNames: readonly string[] = [
  "grammar",
  "grammar_triggers",
  "json_schema",
  "response_format",
  "tools",
  "functions",
  "text",
  "output_format",
  "output_config",
  "structured_outputs",
  "guided_json",
  "guided_regex",
  "guided_grammar",
  "chat_parser",
  "repeat_last_n",
  "penalty_last_n",
  "dry_penalty_last_n",
];
