import { randomUUID } from "node:crypto";
import {
  LlamaChat,
  LlamaText,
  type ChatHistoryItem,
  type ChatModelFunctionCall,
  type ChatModelFunctions,
  type ChatWrapper,
  type LlamaContextSequence,
} from "node-llama-cpp";
import type { ChatMessage, ToolUse } from "./chat-request.ts";
import { readPrompt, samplingOptions, tokenLimit } from "./generation.ts";
import { PieceQueue, type Finished, type Pieces } from "./pieces.ts";
import { Refusal } from "./refusal.ts";
import type { Sampling } from "./requests.ts";
import { grammarSchema } from "./schema.ts";

/** The limit of calls in one answer: a model that repeats itself would continue to the end of its context. */
const parallelLimit = 16;
/** Tokens that a wrapper may add around a call, beside the rendered prompt, and one that the library keeps free. */
const callOverheadTokens = 33;

/**
 * A chat in which the model may call tools. The library knows how its families of models write calls and enforces the
 * tools' schemas on their arguments. Throws Refusal when the prompt does not fit.
 */
export async function* chatWithTools(
  sequence: LlamaContextSequence,
  wrapper: ChatWrapper,
  messages: readonly ChatMessage[],
  use: ToolUse,
  sampling: Sampling,
  signal: AbortSignal,
): Pieces {
  const history = toHistory(messages);
  const functions = toFunctions(use);
  const chatWrapper = use.isForced ? forced(wrapper) : wrapper;
  const context = chatWrapper.generateContextState({
    chatHistory: [...history, { type: "model", response: [] }],
    availableFunctions: functions,
    documentFunctionParams: true,
  });
  const prompt = context.contextText.tokenize(sequence.model.tokenizer);
  const promptTokens = prompt.length;
  const maxTokens = tokenLimit(sequence, promptTokens, sampling, callOverheadTokens);
  // The library would read it at once, and look at the signal afterwards.
  await readPrompt(sequence, prompt, signal);
  const queue = new PieceQueue();
  const ids = new Map<number, string>();
  let blank = "";
  const call = (index: number, name: string): void => {
    if (ids.has(index)) return;
    const id = `call_${randomUUID().replaceAll("-", "")}`;
    ids.set(index, id);
    queue.push({ call: { index, id, name } });
  };
  const chat = new LlamaChat({ contextSequence: sequence, chatWrapper });
  const before = sequence.tokenMeter.usedOutputTokens;
  const { repeatPenalty, ...options } = samplingOptions(sampling, () => []);
  const running = chat
    .generateResponse(history, {
      ...options,
      repeatPenalty: repeatPenalty === undefined ? false : { ...repeatPenalty, lastTokens: 64 },
      functions,
      documentFunctionParams: true,
      maxParallelFunctionCalls: use.isParallel ? parallelLimit : 1,
      maxTokens,
      customStopTriggers: sampling.stop,
      contextShift: {
        strategy: () => {
          throw new Refusal(400, `the chat has outgrown the context of ${sequence.contextSize} tokens`);
        },
      },
      signal,
      stopOnAbortSignal: true,
      onResponseChunk: ({ type, segmentType, text }) => {
        if (text === "") return;
        queue.push(type === "segment" && segmentType === "thought" ? { reasoning: text } : { content: text });
      },
      onFunctionCallParamsChunk: ({ callIndex, functionName, paramsChunk, done }) => {
        call(callIndex, functionName);
        // The library ends arguments with blank lines: white space waits for further text.
        const text = blank + paramsChunk;
        const sent = text.trimEnd();
        blank = text.slice(sent.length);
        if (sent !== "") queue.push({ arguments: { index: callIndex, text: sent } });
        if (done) blank = "";
      },
    })
    .then(
      (result) => {
        for (const [index, { functionName, params }] of (result.functionCalls ?? []).entries()) {
          // A tool without parameters is called without a chunk of them.
          if (ids.has(index)) continue;
          call(index, functionName);
          queue.push({ arguments: { index, text: JSON.stringify(params ?? {}) } });
        }
        queue.end();
        return result.metadata;
      },
      (error: unknown) => {
        queue.fail(error);
        return { stopReason: "abort" } as const;
      },
    );
  try {
    yield* queue.take();
    const ended = await running;
    const finishReason: Finished["finishReason"] =
      ended.stopReason === "maxTokens" ? "length" : ids.size > 0 ? "tool_calls" : "stop";
    const isStopped = finishReason === "stop" && ended.stopReason === "customStopTrigger";
    const stop = isStopped ? ended.customStopTrigger.join("") : undefined;
    // The library may sample one token more than it returns.
    const completionTokens = Math.min(sequence.tokenMeter.usedOutputTokens - before, maxTokens);
    return { finishReason, stop, promptTokens, completionTokens };
  } finally {
    // The consumer may have stopped: the sequence is released only when nothing evaluates on it.
    await running;
    chat.dispose({ disposeSequence: false });
  }
}

/** A wrapper like the given one, which begins the answer by calling a function. */
function forced(wrapper: ChatWrapper): ChatWrapper {
  const generateContextState: ChatWrapper["generateContextState"] = (options) => {
    const { contextText, stopGenerationTriggers } = wrapper.generateContextState(options);
    return {
      contextText,
      stopGenerationTriggers,
      noPrefixTrigger: { type: "functionCall", inject: LlamaText("") },
    };
  };
  return Object.assign(Object.create(wrapper), { generateContextState });
}

function toFunctions({ tools }: ToolUse): ChatModelFunctions {
  return Object.fromEntries(
    tools.map(({ name, description, parameters }) => [
      name,
      {
        ...(description === undefined ? {} : { description }),
        ...(hasParameters(parameters) ? { params: grammarSchema(parameters, "tool") } : {}),
      },
    ]),
  );
}

function hasParameters(parameters: unknown): boolean {
  if (typeof parameters !== "object" || parameters === null) return false;
  const isEmpty = "properties" in parameters && Object.keys(Object(parameters.properties)).length === 0;
  return Object.keys(parameters).length > 0 && !isEmpty;
}

/** OpenAI's messages as the library's history: the results of calls belong to the calls. */
export function toHistory(messages: readonly ChatMessage[]): ChatHistoryItem[] {
  const results = new Map(
    messages.flatMap(({ role, tool_call_id: id, content }) =>
      role === "tool" && id !== undefined ? [[id, content]] : [],
    ),
  );
  const history: ChatHistoryItem[] = [];
  for (const { role, content, tool_calls: calls = [] } of messages) {
    const last = history.at(-1);
    switch (role) {
      case "system":
        history.push({ type: "system", text: content });
        break;
      case "user":
        history.push({ type: "user", text: content });
        break;
      case "assistant": {
        const response = [
          ...(content === "" ? [] : [content]),
          ...calls.map((call, index): ChatModelFunctionCall => ({
            type: "functionCall",
            name: call.function.name,
            params: call.function.arguments,
            result: results.get(call.id) ?? "",
            ...(index === 0 ? { startsNewChunk: true } : {}),
          })),
        ];
        // Adjacent turns of the model, with only results between them, are one turn.
        if (last?.type === "model") last.response.push(...response);
        else history.push({ type: "model", response });
        break;
      }
      case "tool":
        if (last?.type !== "model") throw new Refusal(400, "a tool message must follow the call that it answers");
        break;
      default:
        role satisfies never;
    }
  }
  return history;
}
