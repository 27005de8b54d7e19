import type { ConversationHead } from "../../api/management/chat-routes.ts";
import type { Failure } from "./thread-failure.ts";

/** A message to the thread. */
export type Question = { readonly stateDir: string; readonly owner: string; readonly id: string } & (
  | { readonly do: "read" }
  | {
      readonly do: "write";
      /** JSON, as a client has sent it. */
      readonly bytes: Uint8Array;
      /** The `updated_at` of the kept text that it continues, or `none`; absent: it replaces any. */
      readonly basedOn?: string;
      /** False: a text that is not here may be another gateway's. */
      readonly hasAll: boolean;
    }
  | { readonly do: "remove" }
);

/** A conversation's JSON to `read`, its head to `write`, nothing to `remove`. */
export type Answer =
  | { readonly bytes: Uint8Array }
  | { readonly head: ConversationHead }
  | { readonly isRemoved: true }
  | { readonly failure: Failure };
