import { ApiError } from "../../api/errors.ts";
import type { RouteShape } from "../../api/management/shape.ts";
import { v1Shape } from "../../api/management/v1-shape.ts";
import type { BufferBudget } from "../slots/budget.ts";
import { messagesErrors } from "../protocols/messages-errors.ts";
import type { KeptItems, OwnItems } from "../protocols/kept-items.ts";
import { MessagesCount, MessagesTranslation } from "../protocols/messages.ts";
import { RerankTranslation, ScoreTranslation, defaultReranker } from "../protocols/rerank.ts";
import { responsesErrors } from "../protocols/responses-errors.ts";
import { ResponsesCount, ResponsesTranslation } from "../protocols/responses.ts";
import { mayAskForLength, ShortVectors } from "../protocols/short-vectors.ts";
import { audioRoutes } from "./audio-routes.ts";
import { messageList, oneOrMoreTexts, responsesInput, type InputRule } from "./body-fields.ts";
import { imageRoute, type ImagePlaces } from "./image-route.ts";
import { jsonRoute } from "./json-route.ts";
import type { JsonServer, JsonTarget } from "./json-target.ts";
import type { V1Route } from "./route.ts";

const chat: JsonTarget = { capability: "chat", enginePath: "/v1/chat/completions", isChat: true };
const completions: JsonTarget = { capability: "completions", enginePath: "/v1/completions" };
const input = "/v1/chat/completions/input_tokens";
const embeddings: JsonTarget = { capability: "embeddings", enginePath: "/v1/embeddings" };
const responses: JsonTarget = {
  capability: "chat",
  enginePath: "/v1/responses",
  endMark: /^event: ?response\.(completed|incomplete|failed)/m,
};
const messages: JsonTarget = { capability: "chat", enginePath: "/v1/messages", endMark: /^event: ?message_stop/m };
const countTokens: JsonTarget = { capability: "chat", enginePath: "/v1/messages/count_tokens" };

const messagesRule: InputRule = { field: "messages", kinds: ["list"], isRequired: false, formBeforeLoad: messageList };
const responsesRule: InputRule = {
  field: "input",
  kinds: ["text", "list"],
  isRequired: false,
  formBeforeLoad: responsesInput,
};

/** The routes that accept one JSON object with `model` and relay the engine's answer. */
const jsonRoutes = (kept: KeptItems): readonly V1Route[] => [
  jsonRoute({
    path: "/v1/chat/completions",
    summary: "The next message of a chat, whole or as a stream",
    inputRule: messagesRule,
    target: chat,
    // Cursor's agent sends Responses to this route, and reads a chat's answer.
    otherInput: {
      inputRule: responsesRule,
      target: () => ({ ...chat, requestTranslation: new ResponsesTranslation(nothingKept) }),
    },
  }),
  jsonRoute({
    path: "/v1/completions",
    summary: "A text continued, whole or as a stream",
    inputRule: { field: "prompt", kinds: ["text", "list", "map"], isRequired: false, formBeforeLoad: oneOrMoreTexts },
    target: completions,
  }),
  jsonRoute({
    path: "/v1/embeddings",
    summary: "Vectors of texts",
    hasStreams: false,
    inputRule: { field: "input", kinds: ["text", "list", "map"], isRequired: true, formBeforeLoad: oneOrMoreTexts },
    // A provider supports `dimensions` itself.
    target: ({ isProvider, body }) =>
      isProvider || !mayAskForLength(body) ? embeddings : { ...embeddings, translation: new ShortVectors() },
  }),
  jsonRoute({
    path: "/v1/rerank",
    summary: "Documents sorted by how well they answer a query",
    aliasPaths: ["/v1/rerankings", "/v1/reranking", "/rerank", "/v2/rerank"],
    hasStreams: false,
    defaultModel: defaultReranker,
    target: () => ({ capability: "rerank", enginePath: "/v1/rerank", translation: new RerankTranslation() }),
  }),
  jsonRoute({
    path: "/v1/score",
    summary: "How well texts answer one text, unsorted, as vLLM has it",
    aliasPaths: ["/score"],
    hasStreams: false,
    target: () => ({ capability: "rerank", enginePath: "/v1/rerank", translation: new ScoreTranslation() }),
  }),
  jsonRoute({
    path: "/v1/responses",
    summary: "The Responses protocol, translated where the engine does not speak it",
    errors: responsesErrors,
    inputRule: responsesRule,
    isKept: true,
    target: (server) =>
      server.speaks("responses")
        ? responses
        : { ...chat, isChat: false, translation: new ResponsesTranslation(itemsOf(kept, server.owner)) },
  }),
  jsonRoute({
    path: "/v1/chat/completions/input_tokens",
    summary: "How many tokens a chat has, where the engine can count them",
    hasStreams: false,
    inputRule: messagesRule,
    target(server) {
      if (!server.isProvider && server.speaks("input_tokens")) return { capability: "chat", enginePath: input };
      throw noCount(server);
    },
  }),
  jsonRoute({
    path: "/v1/responses/input_tokens",
    summary: "How many tokens a Responses request has, where the engine can count them",
    errors: responsesErrors,
    hasStreams: false,
    inputRule: responsesRule,
    target(server) {
      if (server.speaks("responses") && server.speaks("input_tokens"))
        return { capability: "chat", enginePath: "/v1/responses/input_tokens" };
      if (server.isProvider || !server.speaks("input_tokens")) throw noCount(server);
      const translation = new ResponsesCount(itemsOf(kept, server.owner));
      return { capability: "chat", enginePath: input, translation };
    },
  }),
  jsonRoute({
    path: "/v1/messages/count_tokens",
    summary: "How many tokens a message has, where the engine can count them",
    errors: messagesErrors,
    hasStreams: false,
    inputRule: messagesRule,
    target(server) {
      if (server.speaks("count_tokens")) return countTokens;
      if (server.isProvider || !server.speaks("input_tokens")) throw noCount(server);
      return { capability: "chat", enginePath: input, translation: new MessagesCount() };
    },
  }),
  jsonRoute({
    path: "/v1/messages",
    summary: "The Messages protocol, translated where the engine does not speak it",
    errors: messagesErrors,
    inputRule: messagesRule,
    target: (server) =>
      server.speaks("messages") ? messages : { ...chat, isChat: false, translation: new MessagesTranslation() },
  }),
];

/** For answers without ids that a client could name. */
const nothingKept: OwnItems = { keep: () => undefined, find: () => undefined };

function noCount({ label }: JsonServer): ApiError {
  return new ApiError("system.not_implemented", { message: `${label} cannot count tokens without answering` });
}

function itemsOf(kept: KeptItems, owner: string): OwnItems {
  return { keep: (item) => kept.keep(owner, item), find: (id) => kept.find(owner, id) };
}

/** Every route that reaches an engine or a provider (CONTRACT "/v1"). */
export function v1Routes(
  places: ImagePlaces & {
    readonly stateDir: string;
    readonly spooled: BufferBudget;
    readonly kept: KeptItems;
  },
): readonly V1Route[] {
  return [...jsonRoutes(places.kept), ...audioRoutes(places.stateDir, places.spooled), imageRoute(places)];
}

/** As the OpenAPI document shows them, further paths too. */
export function v1Shapes(routes: readonly V1Route[]): RouteShape[] {
  return routes.flatMap(({ method, path, aliasPaths, about }) =>
    [path, ...aliasPaths].map((each) => v1Shape({ method, path: each, about })),
  );
}
