import {
  getLlama,
  LlamaLogLevel,
  resolveChatWrapper,
  type ChatWrapper,
  type LlamaEmbeddingContextOptions,
  type LlamaModel,
  type Token,
} from "node-llama-cpp";
import type { EngineArguments } from "./arguments.ts";
import type { AnswerFormat, ChatMessage, ToolUse } from "./chat-request.ts";
import { checkFits } from "./fit.ts";
import { answerGrammar } from "./grammar.ts";
import { batchTokens, generate } from "./generation.ts";
import type { Pieces } from "./pieces.ts";
import { contextExceeded, Refusal } from "./refusal.ts";
import type { PlacedText, Sampling } from "./requests.ts";
import { Sequences } from "./sequences.ts";
import { chatRenderer, fallbackEnds } from "./template.ts";
import { chatWithTools } from "./tool-chat.ts";

/** The context of slots without a size: enough for a chat, small enough for any machine. */
const defaultContextSize = 4096;
/** llama.cpp's `LLAMA_POOLING_TYPE_LAST`. */
const lastPooling = 3;

export interface ChatRequest {
  readonly messages: readonly ChatMessage[];
  readonly sampling: Sampling;
  readonly format: AnswerFormat | undefined;
  readonly toolUse: ToolUse | undefined;
}

/** A loaded model; its functions follow from the mode it was loaded for. */
export interface LoadedModel {
  /** llama.cpp's count, with the output layer. */
  readonly layers: number;
  chat(request: ChatRequest, signal: AbortSignal): Pieces;
  complete(prompt: string, sampling: Sampling, format: AnswerFormat | undefined, signal: AbortSignal): Pieces;
  /** Throws Refusal, also for a text that gives the model nothing to read. */
  embed(texts: readonly PlacedText[], signal: AbortSignal): Promise<{ vectors: (readonly number[])[]; tokens: number }>;
  rerank(
    query: string,
    documents: readonly string[],
    signal: AbortSignal,
  ): Promise<{ scores: readonly number[]; tokens: number }>;
}

/** The functions of a model. */
type Model = Omit<LoadedModel, "layers">;

/** Loads the model for its mode, and makes its context. Rejects when llama.cpp cannot read it or lacks memory. */
export async function loadModel(options: EngineArguments): Promise<LoadedModel> {
  // Nothing is built or downloaded: the library in the platform package computes on the CPU.
  const llama = await getLlama({
    gpu: false,
    build: "never",
    maxThreads: options.threads,
    logLevel: LlamaLogLevel.warn,
    progressLogs: false,
  });
  const model = await llama.loadModel({ modelPath: options.model });
  const longest = Math.max(8, model.trainContextSize);
  const contextSize = Math.min(options.contextSize ?? defaultContextSize, longest);
  if (options.contextSize !== undefined && options.contextSize > longest) {
    console.warn(
      `--ctx-size gives each request ${options.contextSize} tokens, and the model was made for ${longest}: each gets ${longest}`,
    );
  }
  const kinds = { chat: chatModel, embedding: embeddingModel, reranking: rankingModel };
  const loaded = await kinds[options.mode](model, options, contextSize);
  return { ...loaded, layers: model.fileInsights.totalLayers };
}

/** The functions of a model loaded for `mode`: the others are refused. */
function loadedFor(mode: string, can: Partial<Model>): Model {
  const refuse = (): never => {
    throw new Refusal(501, `this engine was started for ${mode}`);
  };
  return { chat: refuse, complete: refuse, embed: refuse, rerank: refuse, ...can };
}

async function chatModel(model: LlamaModel, options: EngineArguments, contextSize: number): Promise<Model> {
  const context = await model.createContext({
    contextSize,
    sequences: options.parallel,
    batchSize: batchTokens,
    threads: options.threads,
  });
  const sequences = new Sequences(context, options.parallel);
  const template = model.fileInfo.metadata.tokenizer?.chat_template;
  if (template === undefined)
    console.warn(
      "the model's file has no chat template: chats are written as `user: …`, which a model may not have learned",
    );
  const chatEnds = template === undefined ? fallbackEnds : [];
  const render = chatRenderer(template, {
    bos: model.tokens.bosString ?? "",
    eos: model.tokens.eosString ?? "",
  });
  // The family whose format a model's calls have is found by rendering its template: once, when it is first needed.
  let family: ChatWrapper | undefined;
  async function* run(
    text: string,
    sampling: Sampling,
    format: AnswerFormat | undefined,
    signal: AbortSignal,
    ends: readonly string[] = [],
  ): Pieces {
    await checkFits(model, text, contextSize, signal);
    const prompt = withBos(model, model.tokenize(text, true));
    const grammar = format === undefined ? undefined : await answerGrammar(model.llama, format);
    using loan = await sequences.borrow(prompt, signal);
    return yield* generate(model, loan.sequence, prompt, sampling, signal, { grammar, ends });
  }
  async function* callTools(
    messages: readonly ChatMessage[],
    use: ToolUse,
    sampling: Sampling,
    signal: AbortSignal,
  ): Pieces {
    await checkFits(model, messages.map(({ content }) => content).join(""), contextSize, signal);
    family ??= resolveChatWrapper(model, { warningLogs: false });
    using loan = await sequences.borrow([], signal);
    return yield* chatWithTools(loan.sequence, family, messages, use, sampling, signal);
  }
  return loadedFor("chat", {
    chat({ messages, sampling, format, toolUse }, signal) {
      if (toolUse !== undefined) {
        if (format !== undefined)
          throw new Refusal(400, "this engine holds an answer to a format or offers tools, not both");
        return callTools(messages, toolUse, sampling, signal);
      }
      return run(render(messages), sampling, format, signal, chatEnds);
    },
    complete: (prompt, sampling, format, signal) => run(prompt, sampling, format, signal),
  });
}

function withBos(model: LlamaModel, tokens: Token[]): Token[] {
  const { bos, shouldPrependBosToken } = model.tokens;
  return shouldPrependBosToken && bos !== null && tokens[0] !== bos ? [bos, ...tokens] : tokens;
}

/**
 * A vector is made from the tokens of one batch: without its own batch size, the library would leave out all but the last
 * 512 tokens of a longer text. A vector of the last token alone needs no such batch, which takes memory.
 */
function wholeTexts(
  model: LlamaModel,
  { threads }: EngineArguments,
  contextSize: number,
): LlamaEmbeddingContextOptions {
  // The library leaves the last place of a context free.
  const whole = { contextSize: contextSize + 1, threads };
  const isOfLast = Number(model.fileInfo.architectureMetadata.pooling_type) === lastPooling;
  return isOfLast ? whole : { ...whole, batchSize: contextSize };
}

async function embeddingModel(model: LlamaModel, options: EngineArguments, contextSize: number): Promise<Model> {
  const context = await model.createEmbeddingContext(wholeTexts(model, options, contextSize));
  return loadedFor("embeddings", {
    async embed(texts, signal) {
      let tokens = 0;
      const vectors: (readonly number[])[] = [];
      for (const { text, place } of texts) {
        signal.throwIfAborted();
        await checkFits(model, text, contextSize, signal);
        const tokenized = model.tokenize(text);
        // The library would answer with a vector without numbers.
        if (tokenized.length === 0)
          throw new Refusal(400, `${place} is empty, or has no text that this model can read`);
        // With the tokens that begin and end the text.
        const length = context.calculateInputLength(tokenized);
        if (length > contextSize) throw contextExceeded(length, contextSize);
        tokens += length;
        const { vector } = await context.getEmbeddingFor(tokenized);
        vectors.push(normalized(vector));
      }
      return { vectors, tokens };
    },
  });
}

function normalized(vector: readonly number[]): readonly number[] {
  const length = Math.hypot(...vector);
  return length === 0 ? vector : vector.map((value) => value / length);
}

async function rankingModel(model: LlamaModel, options: EngineArguments, contextSize: number): Promise<Model> {
  const context = await model.createRankingContext(wholeTexts(model, options, contextSize));
  return loadedFor("reranking", {
    async rerank(query, documents, signal) {
      let tokens = 0;
      for (const document of documents) {
        await checkFits(model, query + document, contextSize, signal);
        const length = context.calculateInputLength(query, document);
        if (length > contextSize) throw contextExceeded(length, contextSize);
        tokens += length;
      }
      const scores: number[] = [];
      for (const document of documents) {
        signal.throwIfAborted();
        scores.push(await context.rank(query, document));
      }
      return { scores, tokens };
    },
  });
}
