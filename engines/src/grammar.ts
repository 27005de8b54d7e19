import type { Llama, LlamaGrammar } from "node-llama-cpp";
import type { AnswerFormat } from "./chat-request.ts";
import { errorMessage, Refusal } from "./refusal.ts";
import { grammarSchema } from "./schema.ts";

/** The grammar for an answer's format. Throws Refusal (400) where none can be made. */
export async function answerGrammar(llama: Llama, format: AnswerFormat): Promise<LlamaGrammar> {
  try {
    const text = format.kind === "grammar" ? format.text : await schemaGrammar(llama, format.schema, format.isStrict);
    return await llama.createGrammar({ grammar: text });
  } catch (error) {
    if (error instanceof Refusal) throw error;
    const what = format.kind === "grammar" ? "the grammar cannot be read" : "the schema makes no grammar";
    throw new Refusal(400, `${what}: ${errorMessage(error)}`);
  }
}

/**
 * The library's grammar for a schema, without two parts: the blank lines that it requires after the value (a finished
 * grammar allows the end only), and exponents of integers, with which 1e-2 would be an integer.
 */
async function schemaGrammar(llama: Llama, schema: unknown, isStrict: boolean): Promise<string> {
  const { grammar } = await llama.createGrammarForJsonSchema({
    oneOf: [grammarSchema(schema, isStrict ? "strict" : "loose")],
  });
  return grammar
    .replace(/^(root ::= .*) "(?:\\n)+" \[\\n\]\*$/m, "$1")
    .replace(/^(integer-number-rule ::= .*) \(\[eE\].*$/m, "$1");
}
