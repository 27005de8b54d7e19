import type { FastifyRequest } from "fastify";
import { tokenOwner } from "../../api/token.ts";
import type { Handlers } from "./api-server.ts";
import type { ManagementContext } from "./context.ts";

type ChatHandlers = Pick<Handlers, "listConversations" | "getConversation" | "putConversation" | "deleteConversation">;

/** Handlers of the chat page's conversations. */
export function chatHandlers({ conversations }: ManagementContext): ChatHandlers {
  return {
    listConversations: async ({ request }) => ({
      object: "list",
      data: [...(await conversations.list(ownerOf(request)))],
    }),
    getConversation: async ({ params: { id = "" }, request, reply }) => {
      const bytes = await conversations.read(ownerOf(request), id);
      return await reply.type("application/json; charset=utf-8").send(bytes);
    },
    putConversation: async ({ params: { id = "" }, query, body, request }) =>
      await conversations.write(ownerOf(request), id, body, query.based_on),
    deleteConversation: async ({ params: { id = "" }, request, reply }) => {
      await conversations.remove(ownerOf(request), id);
      return await reply.code(204).send();
    },
  };
}

/** Without authentication everybody is the same person; of a token's callers, each token is one. */
function ownerOf({ identity }: FastifyRequest): string {
  if (identity === undefined || identity.source === "none") return "none";
  if (identity.tokenId !== undefined) return tokenOwner(identity.tokenId);
  return `${identity.source} ${identity.identity}`;
}
