import { X } from "lucide";
import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Icon } from "./icon.tsx";

interface DrawerProps {
  readonly title: string;
  readonly children: ComponentChildren;
  readonly onClose: () => void;
  /** Stands in the middle of the page instead of at its edge. */
  readonly isDialog?: boolean;
}

/** Something of the page in detail, over it; the focus returns to where it was. */
export function Drawer({ title, children, onClose, isDialog = false }: DrawerProps): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const dialog = box.current;
    dialog?.showModal();
    // Closed before it leaves the page: so the browser returns the focus to where it was.
    return () => dialog?.close();
  }, []);
  const close = (): void => box.current?.close();
  return (
    <dialog
      ref={box}
      class={isDialog ? "sheet" : "sheet drawer"}
      aria-label={title}
      onClose={onClose}
      onClick={({ target, currentTarget }) => target === currentTarget && close()}
    >
      <div class="chart-head">
        <h2>{title}</h2>
        <button type="button" class="ghost icon" aria-label="Close" onClick={close}>
          <Icon of={X} />
        </button>
      </div>
      {children}
    </dialog>
  );
}
