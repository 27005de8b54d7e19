import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { TokenForm } from "./token-form.tsx";

/** Asks for a token over the page, which keeps what a person has begun to write. */
export function TokenDialog({ onDone }: { readonly onDone: () => void }): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const dialog = box.current;
    dialog?.showModal();
    // Focus returns to where it was.
    return () => dialog?.close();
  }, []);
  // Browsers close a dialog at a repeated Escape whatever its handler says; without the form the page could not go on.
  const reopen = (): void => {
    if (box.current?.isConnected === true) box.current.showModal();
  };
  return (
    <dialog ref={box} aria-label="Who are you?" onCancel={(event) => event.preventDefault()} onClose={reopen}>
      <TokenForm onDone={onDone} isOver />
    </dialog>
  );
}
