"""Probes: can right and wrong answers be told apart without being read?"""
