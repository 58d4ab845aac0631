"""Stands for torch, with no more of it than torch.distributed, in pure Python."""
