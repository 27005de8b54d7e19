import { createRef } from "preact";

/** The box for the next message. */
export const messageBox = createRef<HTMLTextAreaElement>();

/** Where a person goes on by the keyboard after a button that goes away when it is pressed. */
export function focusMessage(): void {
  messageBox.current?.focus();
}
