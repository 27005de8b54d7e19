import type { Conversation, Message } from "./model.ts";

/** A conversation's messages in the order of their writing, those of all its branches, and the end of the shown branch. */
export type Branched = Pick<Conversation, "messages" | "shown">;

/** The place of the message that the one at `place` follows; -1 for a first one. */
export function placeBefore(messages: readonly Message[], place: number): number {
  // Never a later one: whatever a file says, a walk to the beginning ends.
  return Math.min(messages[place]?.after ?? place - 1, place - 1);
}

/** The places of the messages from the first one to the one at `place`. */
export function pathTo(messages: readonly Message[], place: number): readonly number[] {
  const path: number[] = [];
  for (let at = Math.min(place, messages.length - 1); at >= 0; at = placeBefore(messages, at)) path.push(at);
  return path.toReversed();
}

/** The places of the messages of the branch that is shown. */
export function shownPath({ messages, shown }: Branched): readonly number[] {
  return pathTo(messages, shown ?? messages.length - 1);
}

export function shownMessages(conversation: Branched): readonly Message[] {
  return shownPath(conversation).flatMap((place) => conversation.messages[place] ?? []);
}

/** A message more, which follows the one at `place`: beside what followed that already, and shown instead of it. */
export function withMessage<T extends Branched>(conversation: T, message: Message, place: number): T {
  const { messages } = conversation;
  const added = place === messages.length - 1 ? message : { ...message, after: place };
  return { ...conversation, messages: [...messages, added], shown: messages.length };
}

/** The message at `place`, which nothing follows, gives way to another one. */
export function withInstead<T extends Branched>(conversation: T, message: Message, place: number): T {
  const after = conversation.messages[place]?.after;
  const instead = after === undefined ? message : { ...message, after };
  return { ...conversation, messages: conversation.messages.with(place, instead), shown: place };
}

/** The places of each message's versions, its own among them, where there are several. */
export function versionsOf(messages: readonly Message[]): ReadonlyMap<number, readonly number[]> {
  const byPlaceBefore = new Map<number, number[]>();
  for (const place of messages.keys()) {
    const before = placeBefore(messages, place);
    byPlaceBefore.set(before, [...(byPlaceBefore.get(before) ?? []), place]);
  }
  const versions = [...byPlaceBefore.values()].filter(({ length }) => length > 1);
  return new Map(versions.flatMap((places) => places.map((place) => [place, places] as const)));
}

/** The end of the branch that goes on from `place`; of several the one that was written last. */
export function endAfter(messages: readonly Message[], place: number): number {
  const within = new Set([place]);
  for (let at = place + 1; at < messages.length; at += 1) if (within.has(placeBefore(messages, at))) within.add(at);
  return Math.max(...within);
}
